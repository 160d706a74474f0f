//! The types of the C interface.
//!
//! A struct that begins with `size` is sized: the caller sets it to `sizeof` its own definition, and
//! the library reads or writes no more than that. Fields are only ever added at the end. Bytes are
//! bytes; times say their unit. Strings end with a zero byte; those handed out by the library say
//! how long they live.

use std::ffi::{c_char, c_void};

/// What a call answers. The numbers never change.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DormantStatus {
    /// Done.
    Ok = 0,
    /// The device has not enough free memory now; the same call may work later.
    OutOfMemory = 1,
    /// The request can never be met.
    TooLarge = 2,
    /// The driver, the device or this build does not offer it.
    NotSupported = 3,
    /// An argument is wrong; the same call will never work.
    InvalidArgument = 4,
    /// No memory of ours is at that address, or there is no such device.
    NotFound = 5,
    /// The block exists, but not in the state that the call needs.
    WrongState = 6,
    /// Somebody else is at it: work in flight, a transition, a capture. Nothing changed.
    Busy = 7,
    /// The device is gone for this process.
    DeviceLost = 8,
    /// An earlier piece of work on the device failed, and the driver says so only now.
    EarlierWorkFailed = 9,
    /// The driver did not give the same address back.
    AddressLost = 10,
    /// The driver left the block in an unknown state.
    Poisoned = 11,
    /// The host has not enough memory, or the limit for backups does not allow it.
    HostMemory = 12,
    /// A file or directory could not be made, written or read.
    Io = 13,
    /// There is no driver library, or it is not one that can be used.
    NoDriver = 14,
    /// The process is a forked child; the memory belongs to its parent.
    Forked = 15,
    /// The driver answered with something that has no name here.
    Unknown = 16,
    /// A defect of this library, caught at its edge.
    Internal = 17,
    /// Two different builds of this library are in the process.
    TwoBuilds = 18,
    /// Saved contents are not what they were when they were saved; they are kept as they are.
    ChecksumMismatch = 19,
}

/// A case of `dormant_verify` holds.
pub const DORMANT_CASE_PASSED: i32 = 0;
/// It does not.
pub const DORMANT_CASE_FAILED: i32 = 1;
/// It was not run.
pub const DORMANT_CASE_SKIPPED: i32 = 2;

/// Contents are undefined after a resume.
pub const DORMANT_POLICY_DISCARD: i32 = 0;
/// Zero at first use and after every resume.
pub const DORMANT_POLICY_ZERO: i32 = 1;
/// Kept in host memory.
pub const DORMANT_POLICY_HOST: i32 = 2;
/// Kept on disk.
pub const DORMANT_POLICY_DISK: i32 = 3;
/// The block's own policy; for a pause.
pub const DORMANT_POLICY_OWN: i32 = -1;

/// As the settings say.
pub const DORMANT_HOST_MODE_OWN: i32 = 0;
/// Host memory of backups is retained while this process's share of it allows that, else reclaimed.
pub const DORMANT_HOST_MODE_AUTO: i32 = 1;
/// It is registered, and kept for the next pause until `dormant_trim`.
pub const DORMANT_HOST_MODE_RETAIN: i32 = 2;
/// It goes back to the system after the resume.
pub const DORMANT_HOST_MODE_RECLAIM: i32 = 3;

/// As the settings say; for a pause, as each block's own.
pub const DORMANT_CHECKSUM_OWN: i32 = 0;
/// Saved contents are not checked.
pub const DORMANT_CHECKSUM_OFF: i32 = 1;
/// Every byte of saved contents is checked when it comes back.
pub const DORMANT_CHECKSUM_FULL: i32 = 2;

/// The system gives no huge pages: backups in host memory take longer.
pub const DORMANT_NOTICE_HUGE_PAGES_OFF: u32 = 1;
/// Host memory could not be registered with the driver: copies are slower.
pub const DORMANT_NOTICE_REGISTRATION_REFUSED: u32 = 2;
/// The directory for contents on disk is in memory.
pub const DORMANT_NOTICE_DISK_IN_MEMORY: u32 = 4;
/// Contents on disk go through the page cache.
pub const DORMANT_NOTICE_DISK_BUFFERED: u32 = 8;

/// There is no such tag.
pub const DORMANT_STATE_NONE: i32 = 0;
/// In use.
pub const DORMANT_STATE_ACTIVE: i32 = 1;
/// Asleep.
pub const DORMANT_STATE_PAUSED: i32 = 2;
/// A transition is at it.
pub const DORMANT_STATE_MOVING: i32 = 3;
/// The driver left it in an unknown state.
pub const DORMANT_STATE_POISONED: i32 = 4;
/// A tag with blocks in several states.
pub const DORMANT_STATE_MIXED: i32 = 5;

/// Torch allocators that there are: `dormant_torch_malloc_0` to `dormant_torch_malloc_127`.
pub const DORMANT_TORCH_SLOTS: u32 = 128;

/// What memory gets that is allocated in a region.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantRegion {
    /// `sizeof(DormantRegion)`.
    pub size: u32,
    /// One of `DORMANT_POLICY_...`.
    pub policy: i32,
    /// The tag. NULL: `default`.
    pub tag: *const c_char,
    /// Devices that may use the memory beside its owner.
    pub peers: *const u32,
    /// How many.
    pub peer_count: usize,
    /// Where contents go that are kept on disk. NULL: where the configuration says.
    pub disk_directory: *const c_char,
    /// How host memory of its backups is held: one of `DORMANT_HOST_MODE_...`.
    pub host_mode: i32,
    /// Whether its saved contents are checked: one of `DORMANT_CHECKSUM_...`.
    pub checksum: i32,
}

/// How to pause.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantPauseOptions {
    /// `sizeof(DormantPauseOptions)`.
    pub size: u32,
    /// Overrides the policy of the blocks that this call pauses; `DORMANT_POLICY_OWN` does not.
    pub policy: i32,
    /// How long to wait for another transition and for work in flight, in ms; negative: as
    /// configured.
    pub timeout_ms: i64,
    /// Overrides whether the contents that this call saves are checked: one of
    /// `DORMANT_CHECKSUM_...`; `DORMANT_CHECKSUM_OWN` does not.
    pub checksum: i32,
    /// Overrides how the host memory of the backups that this call makes is held: one of
    /// `DORMANT_HOST_MODE_...`; `DORMANT_HOST_MODE_OWN` does not.
    pub host_mode: i32,
}

/// How to resume.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantResumeOptions {
    /// `sizeof(DormantResumeOptions)`.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// How long to wait for another transition, in ms; negative: as configured.
    pub timeout_ms: i64,
    /// How long to try again when memory is short, in ms.
    pub wait_for_memory_ms: i64,
}

/// Blocks and bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DormantAmount {
    /// How many blocks.
    pub blocks: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// What one pause or resume did, all tags and devices together; `dormant_report_tags` and
/// `dormant_report_devices` give the parts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DormantReport {
    /// `sizeof(DormantReport)`.
    pub size: u32,
    /// Threads that copied.
    pub workers: u32,
    /// Physical bytes given back by a pause, or taken by a resume.
    pub moved: DormantAmount,
    /// Bytes saved by a pause, or brought back by a resume.
    pub copied: DormantAmount,
    /// Bytes set to zero.
    pub zeroed: DormantAmount,
    /// Blocks that were in the wanted state already.
    pub already: DormantAmount,
    /// Blocks that take part in nothing any more.
    pub poisoned: DormantAmount,
    /// Waiting for another transition, in ns; so are the others.
    pub turn_ns: u64,
    /// Pause: waiting for work in flight.
    pub quiesce_ns: u64,
    /// Pause: taking host memory and disk space. Resume: creating physical memory.
    pub create_ns: u64,
    /// Pause: unmapping and releasing. Resume: mapping.
    pub map_ns: u64,
    /// Copying and filling.
    pub copy_ns: u64,
    /// The whole call.
    pub total_ns: u64,
    /// How host memory of these backups is held, as text: `retain`, `reclaim`, `mixed`, or `none`
    /// where there are none.
    pub host_mode: [c_char; 16],
    /// 1 if every staging buffer could be registered; copies are slower where not.
    pub staging_registered: u32,
    /// What works less well than it could and no report has said before: bits of
    /// `DORMANT_NOTICE_...`; `dormant_notice_text` has words for each.
    pub notices: u32,
    /// Pause: why it is held so, as text: `asked`; with `DORMANT_HOST_MODE_AUTO` `share_allows` or
    /// `share_too_small`; `retain_limit` where the limit on retained memory was met.
    pub host_mode_reason: [c_char; 32],
}

/// What happened to one tag on one device. The tag's text lives as long as the callback runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantTagReport {
    /// The tag.
    pub tag: *const c_char,
    /// The device.
    pub device: u32,
    /// Zero.
    pub reserved: u32,
    /// As in `DormantReport`.
    pub moved: DormantAmount,
    /// As in `DormantReport`.
    pub copied: DormantAmount,
    /// As in `DormantReport`.
    pub zeroed: DormantAmount,
    /// As in `DormantReport`.
    pub already: DormantAmount,
    /// As in `DormantReport`.
    pub poisoned: DormantAmount,
}

/// A device's own free reading around a call. Other processes move it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantDeviceReport {
    /// The device.
    pub device: u32,
    /// 1 after a pause that gave memory back by our count, if the reading did not rise.
    pub freed_nothing: u32,
    /// Physical bytes given back or taken, by our own count.
    pub moved_bytes: u64,
    /// Free bytes before; `UINT64_MAX` where the device could not be asked.
    pub free_before: u64,
    /// Free bytes after; `UINT64_MAX` where the device could not be asked.
    pub free_after: u64,
}

/// What one tag has on one device. The tag's text lives as long as the callback runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantTagStats {
    /// The tag.
    pub tag: *const c_char,
    /// The device.
    pub device: u32,
    /// Zero.
    pub reserved: u32,
    /// Blocks in use, physical bytes.
    pub active: DormantAmount,
    /// Blocks that sleep, and the physical bytes that they will want.
    pub paused: DormantAmount,
    /// Blocks that a transition is at, physical bytes.
    pub moving: DormantAmount,
    /// Blocks that the driver left in an unknown state, physical bytes.
    pub poisoned: DormantAmount,
    /// Saved contents of blocks that sleep.
    pub saved: DormantAmount,
}

/// Everything, counted up.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DormantStats {
    /// `sizeof(DormantStats)`.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// Host memory that backups take, in bytes of whole pages.
    pub host_backup_bytes: u64,
    /// Active blocks whose free waits for a capture to end, or for the device.
    pub deferred_frees: u64,
    /// Frees that failed where nobody could be told.
    pub failed_frees: u64,
    /// Address ranges dropped without being given back.
    pub leaked_ranges: u64,
    /// Physical handles dropped without being released.
    pub leaked_handles: u64,
    /// Bytes that backups take on disk.
    pub disk_backup_bytes: u64,
    /// Host memory that is retained between pauses, in bytes, whether a backup is in it or not.
    pub host_retained_bytes: u64,
    /// Disk space that the files of backups take, in bytes, with what they keep for the next pause.
    pub disk_file_bytes: u64,
}

/// How to prepare.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantPrepareOptions {
    /// `sizeof(DormantPrepareOptions)`.
    pub size: u32,
    /// Not 0: host memory is registered when the call has returned.
    pub background: u32,
    /// For a pause with this in `DormantPauseOptions.host_mode`.
    pub host_mode: i32,
    /// Zero.
    pub reserved: u32,
}

/// What `dormant_prepare` has done.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DormantPrepared {
    /// `sizeof(DormantPrepared)`.
    pub size: u32,
    /// 1 if all memory that is retained is registered; in the background it is not known yet.
    pub registered: u32,
    /// Bytes of backups for which memory is retained now, in whole pages.
    pub bytes: u64,
}

/// What a pause would come to, all tags and devices together.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DormantPlan {
    /// `sizeof(DormantPlan)`.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// Physical bytes that the devices would get back.
    pub freed: DormantAmount,
    /// Contents that would be saved in host memory.
    pub host: DormantAmount,
    /// Contents that would be saved on disk.
    pub disk: DormantAmount,
    /// Host memory that would have to be taken, in bytes of whole pages: what is not retained already.
    pub host_wanted_bytes: u64,
    /// Host memory that this process may take, in bytes; `UINT64_MAX` where nothing limits it.
    pub host_allowed_bytes: u64,
    /// What of `host_wanted_bytes` is not allowed; 0: there is enough. Processes that pause together
    /// can take the maximum of this number over all of them, and pause where that is 0.
    pub host_short_bytes: u64,
}

/// One block. From a callback the tag's text lives as long as the callback runs; from
/// `dormant_find` until the thread's next call of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantBlock {
    /// `sizeof(DormantBlock)`.
    pub size: u32,
    /// The owner device.
    pub device: u32,
    /// One of `DORMANT_STATE_...`.
    pub state: i32,
    /// One of `DORMANT_POLICY_...`.
    pub policy: i32,
    /// One of a kind in this process, also where an address is handed out again.
    pub id: u64,
    /// Where it starts.
    pub address: *mut c_void,
    /// The size that was asked for, in bytes.
    pub bytes: u64,
    /// The size on the device, in bytes.
    pub physical_bytes: u64,
    /// The tag.
    pub tag: *const c_char,
}

/// A device. The name lives as long as the callback runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantDevice {
    /// The vendor's name for it.
    pub name: *const c_char,
    /// Its ordinal.
    pub device: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes that it has.
    pub total_bytes: u64,
}

/// The thread's last error. The texts live until the thread's next failed call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantError {
    /// `sizeof(DormantError)`.
    pub size: u32,
    /// What the failed call answered.
    pub status: DormantStatus,
    /// The kind's stable name, as in `out_of_memory`.
    pub kind: *const c_char,
    /// All that is known, in one line.
    pub text: *const c_char,
    /// The driver's own error code; 0 where the driver did not answer with one.
    pub driver_code: i64,
    /// The device, or -1.
    pub device: i64,
    /// The address that it is about, or NULL.
    pub address: *mut c_void,
    /// Bytes that the whole call wanted; `UINT64_MAX` where that is not the matter.
    pub wanted_bytes: u64,
    /// The device's free reading; `UINT64_MAX` where that is not the matter.
    pub free_bytes: u64,
    /// How many blocks `dormant_last_failures` names.
    pub failures: u64,
    /// 1 if a pause had committed before it failed: its report says what was done.
    pub has_report: u32,
    /// Zero.
    pub reserved: u32,
}

/// A block that a transition could not bring where it was to go. Texts live as long as the
/// callback runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantFailure {
    /// Where the block starts.
    pub address: *mut c_void,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its tag.
    pub tag: *const c_char,
    /// Why.
    pub text: *const c_char,
    /// The device.
    pub device: u32,
    /// 1 if it is poisoned now; 0 if it is in the state that it had before.
    pub poisoned: u32,
}

/// Settings. `dormant_configuration` fills it with what holds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DormantConfig {
    /// `sizeof(DormantConfig)`.
    pub size: u32,
    /// Threads that copy for one device; 0: by the CPUs.
    pub workers: u32,
    /// How long a transition waits, in ms.
    pub transition_timeout_ms: u64,
    /// How long a free of an active block waits for its device, in ms.
    pub free_timeout_ms: u64,
    /// How long staging stays open after its last use, in ms.
    pub idle_timeout_ms: u64,
    /// Processes that share the node with this one.
    pub ranks_on_node: u32,
    /// Zero.
    pub reserved: u32,
    /// The most bytes of host memory that backups may take, what is retained between them included; 0:
    /// what the container and the machine leave, less `host_margin_bytes`, divided by `ranks_on_node`.
    pub host_limit_bytes: u64,
    /// Where contents go that are kept on disk; NULL: the system's folder for temporary files, or, when
    /// configuring, as before.
    pub disk_directory: *const c_char,
    /// The most bytes of host memory that copies to and from disk are staged in; 0: as before.
    pub disk_staging_bytes: u64,
    /// How host memory of backups is held where neither block nor region says: one of
    /// `DORMANT_HOST_MODE_...`; `DORMANT_HOST_MODE_OWN`: as before.
    pub host_mode: i32,
    /// Whether saved contents are checked where neither call, block nor region says: one of
    /// `DORMANT_CHECKSUM_...`; `DORMANT_CHECKSUM_OWN`: as before.
    pub checksum: i32,
    /// Host memory that is left to everybody else where there is no `host_limit_bytes`, in bytes.
    pub host_margin_bytes: u64,
    /// The most bytes of host memory that are retained; 0: as much as backups may take, and half of
    /// that in the mode `DORMANT_HOST_MODE_AUTO`.
    pub retain_limit_bytes: u64,
    /// The most bytes of disk space that the file of a device and directory keeps for the next pause,
    /// which writes to it quicker than to new space; `UINT64_MAX`: all that it had. 0: everything goes
    /// back to the disk when its blocks are resumed or freed.
    pub disk_keep_bytes: u64,
}

/// A region on its way to another thread.
#[derive(Debug)]
pub struct DormantCarried(pub(crate) dormant::region::Carried);

/// The saved contents of a paused block, lent out.
#[derive(Debug)]
pub struct DormantBackup(pub(crate) dormant::Backup);
