//! Programs with places that are gone on at, instead of numbers of instructions.
use super::Instruction;

/// A place in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A program that is being written.
#[derive(Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    /// Where each label stands, once it does.
    labels: Vec<Option<usize>>,
    /// Instructions that go on at a label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// A place that is not known yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The next instruction is at this place.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// These come next.
    pub fn extend(&mut self, instructions: impl IntoIterator<Item = Instruction>) {
        self.instructions.extend(instructions);
    }

    /// This comes next, and goes on at a place: what it has for how far that is does not count.
    pub fn jump(&mut self, label: Label, instruction: Instruction) {
        self.jumps.push((self.instructions.len(), label));
        self.instructions.push(instruction);
    }

    /// The program.
    ///
    /// # Panics
    /// If a place that is gone on at does not stand anywhere, or too far away.
    pub fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let place = self.labels[label.0].expect("each label has its place");
            let distance = place as i64 - at as i64 - 1;
            self.instructions[at].offset = i16::try_from(distance).expect("our programs are short");
        }
        self.instructions
    }
}
