//! Which CPUs are near a device: those of the memory node that its bus is on.

use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs of one memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    cpus: CpuSet,
}

impl Node {
    /// The node of a device on the PCI bus; nothing where the system does not say, or there is only
    /// one for all.
    #[must_use]
    pub fn of_pci(address: &str) -> Option<Self> {
        Self::of_pci_at(Path::new("/sys"), address)
    }

    fn of_pci_at(sys: &Path, address: &str) -> Option<Self> {
        // Drivers write capitals, and some eight digits for the domain.
        let address = address.to_ascii_lowercase();
        let address = address.get(address.len().checked_sub("0000:00:00.0".len())?..)?;
        let device = sys.join("bus/pci/devices").join(address).join("numa_node");
        // -1 says that there are no nodes.
        let node: u32 = std::fs::read_to_string(device).ok()?.trim().parse().ok()?;
        let list = sys.join(format!("devices/system/node/node{node}/cpulist"));
        let cpus = parse(std::fs::read_to_string(list).ok()?.trim())?;
        Some(Self { cpus })
    }

    /// Keeps the calling thread on those of its CPUs that are of this node, so that memory that it
    /// touches first is of the node too. Does nothing where none is.
    pub fn bind_this_thread(&self) {
        let Ok(allowed) = sched_getaffinity(None) else { return };
        let mut both = CpuSet::new();
        for cpu in 0..CpuSet::MAX_CPU {
            if allowed.is_set(cpu) && self.cpus.is_set(cpu) {
                both.set(cpu);
            }
        }
        if both.count() > 0 && both != allowed {
            let _ = sched_setaffinity(None, &both);
        }
    }
}

/// `0-3,8,10-11`, as the kernel lists CPUs.
fn parse(list: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (first..=last.min(CpuSet::MAX_CPU - 1)).for_each(|cpu| cpus.set(cpu));
    }
    (cpus.count() > 0).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(cpus: &CpuSet) -> Vec<usize> {
        (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).collect()
    }

    #[test]
    fn lists_of_cpus_are_read_and_others_are_refused() {
        assert_eq!(numbers(&parse("0-3,8,10-11").unwrap()), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(numbers(&parse("1023-5000").unwrap()), [1023]);
        for wrong in ["", "a", "1-", "3-1", "99999"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_device_is_near_the_cpus_of_its_bus() {
        let sys = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let file = sys.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        put("bus/pci/devices/0000:4b:00.0/numa_node", "1\n");
        put("bus/pci/devices/0000:00:1f.0/numa_node", "-1\n");
        put("bus/pci/devices/0000:01:00.0/numa_node", "7\n");
        put("devices/system/node/node1/cpulist", "4-5\n");
        let near = |address| Node::of_pci_at(sys.path(), address).map(|node| numbers(&node.cpus));
        assert_eq!(near("0000:4B:00.0"), Some(vec![4, 5]));
        assert_eq!(near("00000000:4b:00.0"), Some(vec![4, 5]));
        for other in ["0000:00:1f.0", "0000:01:00.0", "0000:99:00.0", "", "4b"] {
            assert_eq!(near(other), None, "{other}");
        }
    }

    #[test]
    fn a_thread_stays_on_its_own_cpus_of_the_node() {
        std::thread::spawn(|| {
            let before = sched_getaffinity(None).unwrap();
            let own = numbers(&before);
            let one = Node { cpus: parse(&own[0].to_string()).unwrap() };
            one.bind_this_thread();
            assert_eq!(numbers(&sched_getaffinity(None).unwrap()), own[..1]);
            let foreign = (0..CpuSet::MAX_CPU).find(|cpu| !own.contains(cpu)).unwrap();
            Node { cpus: parse(&foreign.to_string()).unwrap() }.bind_this_thread();
            assert_eq!(numbers(&sched_getaffinity(None).unwrap()), own[..1]);
        })
        .join()
        .unwrap();
    }
}
