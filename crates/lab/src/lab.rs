use crate::congestion_permission::CongestionPermission;
use crate::error::LabError;
use crate::host::Host;
use crate::link_handle::LinkHandle;
use crate::plan::Plan;
use crate::privilege::{self, Privilege};
use crate::service::Service;
use crate::topology::{HostDescription, LinkKind, Topology};
use shorthaul_os::process::FirstProcess;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// Hosts and links, running.
///
/// Everything of it vanishes when it is dropped, and also when the process is killed: the namespaces and
/// devices have no names and live by descriptors only, and all programs live in a PID namespace whose
/// first process ends with this one.
#[derive(Debug)]
pub struct Lab {
    // In the order in which they end.
    services: Vec<Service>,
    _processes: Processes,
    links: Vec<LinkHandle>,
    hosts: Vec<Host>,
    plan: Plan,
}

#[derive(Debug)]
struct Processes(Arc<FirstProcess>);

impl Lab {
    /// Builds the topology and starts what its hosts are to run.
    ///
    /// Nothing outside of it changes, with one exception, for a moment: where the machine keeps a congestion
    /// control that a host is to have by default from namespaces, `net.ipv4.tcp_allowed_congestion_control`
    /// is widened while the hosts are set up.
    ///
    /// # Errors
    /// If the topology makes no sense, and if the machine lacks or forbids something: the error says what,
    /// and what to do.
    pub fn start(topology: &Topology) -> Result<Self, LabError> {
        let plan = Plan::of(topology)?;
        Privilege::obtain()?;
        if topology.links.iter().any(|link| matches!(link.kind, LinkKind::Emulated { .. })) {
            privilege::check_tun()?;
        }
        let processes = std::thread::scope(|scope| scope.spawn(FirstProcess::start).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(|error| LabError::Missing {
                need: "a PID namespace",
                problem: format!("the kernel refuses one: {error}"),
                remedy: "run as root, outside of restricted containers".into(),
            })?;
        let processes = Processes(Arc::new(processes));
        let algorithms = topology.hosts.values().map(HostDescription::congestion);
        let permission = CongestionPermission::widen(algorithms);
        let environment = Arc::new(topology.environment.clone());
        let mut hosts = Vec::new();
        for (index, (host, description)) in plan.hosts.iter().zip(topology.hosts.values()).enumerate() {
            let file = plan.hosts_file(index);
            hosts.push(Host::create(host, description, &file, &processes.0, &environment)?);
        }
        drop(permission);
        let mut links = Vec::new();
        for (number, link) in plan.links.iter().enumerate() {
            let ends = link.ends.map(|end| hosts[end].clone());
            links.push(LinkHandle::create(link, number, ends, topology.seed)?);
        }
        hosts.iter().try_for_each(Host::add_routes)?;
        let mut lab = Lab { services: Vec::new(), _processes: processes, links, hosts, plan };
        for (name, description) in &topology.hosts {
            for command in &description.run {
                lab.run_in_background(name, command)?;
            }
        }
        Ok(lab)
    }

    /// What was decided about addresses, interfaces and routes.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The hosts, ordered by name.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The links, ordered as in the topology.
    pub fn links(&self) -> &[LinkHandle] {
        &self.links
    }

    /// The host `name`, if there is one.
    pub fn find_host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name() == name)
    }

    /// The host `name`.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn host(&self, name: &str) -> &Host {
        self.find_host(name).unwrap_or_else(|| panic!("the lab has no host `{name}`"))
    }

    /// The link between two hosts, in whichever order they are named.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn link(&self, one: &str, other: &str) -> &LinkHandle {
        let number = self.plan.link(one, other);
        let number = number.unwrap_or_else(|| panic!("the lab has no link between `{one}` and `{other}`"));
        &self.links[number]
    }

    /// Starts a shell command in the background in `host`, in a process group of its own, without input and
    /// with its output on standard error. It is killed when the lab ends.
    ///
    /// # Errors
    /// If the shell cannot be started.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn run_in_background(&mut self, host: &str, command: &str) -> Result<&mut Service, LabError> {
        let started = Service::start(self.host(host), command);
        let service = started.map_err(LabError::host(host, &format!("starting `{command}`")))?;
        self.services.push(service);
        Ok(self.services.last_mut().expect("it was just pushed"))
    }

    /// What runs in the background.
    pub fn services(&mut self) -> &mut [Service] {
        &mut self.services
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // The first process of a PID namespace ends only when all others have been waited for. Programs
        // that the owner of the lab started and has not waited for yet must not make us wait for ever.
        const TIMEOUT: Duration = Duration::from_millis(500);
        let wait = self.0.end();
        let (done, waiting) = mpsc::channel();
        std::thread::spawn(move || {
            wait();
            done.send(())
        });
        let _ = waiting.recv_timeout(TIMEOUT);
    }
}
