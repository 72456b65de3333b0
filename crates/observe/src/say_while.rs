/// Defines the trait `While` of a crate's error, which says what was being done when something failed, or what is not there.
///
/// The error has a variant `While { doing: String, source: Box<Self> }` and a function `failed(impl Into<String>)`. The trait is the
/// crate's own, so that `?` need not be told which error is meant.
#[macro_export]
macro_rules! say_while {
    ($error:ident) => {
        /// Says what was being done when something failed, or what is not there.
        pub(crate) trait While<T> {
            /// `doing`: and why it failed.
            fn doing(self, doing: impl Into<String>) -> std::result::Result<T, $error>;
        }

        impl<T, E: Into<$error>> While<T> for std::result::Result<T, E> {
            fn doing(self, doing: impl Into<String>) -> std::result::Result<T, $error> {
                self.map_err(|error| $error::While { doing: doing.into(), source: Box::new(error.into()) })
            }
        }

        impl<T> While<T> for Option<T> {
            fn doing(self, missing: impl Into<String>) -> std::result::Result<T, $error> {
                self.ok_or_else(|| $error::failed(missing))
            }
        }
    };
}
