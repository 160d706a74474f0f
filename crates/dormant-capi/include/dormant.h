/* dormant: GPU memory that can sleep. The C interface of libdormant.so.
 *
 * Made from crates/dormant-capi/src by `DORMANT_UPDATE_HEADER=1 cargo test -p dormant-capi --test header`.
 *
 * Every function may be called from any thread. None ends the process, and none prints, but for one
 * line on standard error where an environment variable or a switch of torch_memory_saver makes no sense, or
 * a memory margin refuses an allocation. A call that fails answers with a status, and dormant_last_error has the words and numbers. A struct that begins with
 * `size` is sized: set it to sizeof before the call; fields are only ever added at its end. In a
 * forked child everything that is about memory or a driver answers DORMANT_STATUS_FORKED; while the
 * process ends (in atexit handlers and destructors) DORMANT_STATUS_WRONG_STATE, but for frees, which do
 * nothing then.
 *
 * Beside these functions the library exports, for torch's CUDAPluggableAllocator,
 *     void *dormant_torch_malloc_<slot>(ssize_t bytes, int device, void *stream);
 * with slots from 0 to DORMANT_TORCH_SLOTS - 1 (see dormant_torch_slot), the hooks in front of the CUDA
 * runtime's and HIP's functions, and the names that users of torch_memory_saver know (tms_...).
 */

#ifndef DORMANT_H
#define DORMANT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 A case of `dormant_verify` holds.
 */
#define DORMANT_CASE_PASSED 0

/*
 It does not.
 */
#define DORMANT_CASE_FAILED 1

/*
 It was not run.
 */
#define DORMANT_CASE_SKIPPED 2

/*
 Contents are undefined after a resume.
 */
#define DORMANT_POLICY_DISCARD 0

/*
 Zero at first use and after every resume.
 */
#define DORMANT_POLICY_ZERO 1

/*
 Kept in host memory.
 */
#define DORMANT_POLICY_HOST 2

/*
 Kept on disk.
 */
#define DORMANT_POLICY_DISK 3

/*
 The block's own policy; for a pause.
 */
#define DORMANT_POLICY_OWN -1

/*
 As the settings say.
 */
#define DORMANT_HOST_MODE_OWN 0

/*
 Host memory of backups is retained while this process's share of it allows that, else reclaimed.
 */
#define DORMANT_HOST_MODE_AUTO 1

/*
 It is registered, and kept for the next pause until `dormant_trim`.
 */
#define DORMANT_HOST_MODE_RETAIN 2

/*
 It goes back to the system after the resume.
 */
#define DORMANT_HOST_MODE_RECLAIM 3

/*
 As the settings say; for a pause, as each block's own.
 */
#define DORMANT_CHECKSUM_OWN 0

/*
 Saved contents are not checked.
 */
#define DORMANT_CHECKSUM_OFF 1

/*
 Every byte of saved contents is checked when it comes back.
 */
#define DORMANT_CHECKSUM_FULL 2

/*
 The system gives no huge pages: backups in host memory take longer.
 */
#define DORMANT_NOTICE_HUGE_PAGES_OFF 1

/*
 Host memory could not be registered with the driver: copies are slower.
 */
#define DORMANT_NOTICE_REGISTRATION_REFUSED 2

/*
 The directory for contents on disk is in memory.
 */
#define DORMANT_NOTICE_DISK_IN_MEMORY 4

/*
 Contents on disk go through the page cache.
 */
#define DORMANT_NOTICE_DISK_BUFFERED 8

/*
 There is no such tag.
 */
#define DORMANT_STATE_NONE 0

/*
 In use.
 */
#define DORMANT_STATE_ACTIVE 1

/*
 Asleep.
 */
#define DORMANT_STATE_PAUSED 2

/*
 A transition is at it.
 */
#define DORMANT_STATE_MOVING 3

/*
 The driver left it in an unknown state.
 */
#define DORMANT_STATE_POISONED 4

/*
 A tag with blocks in several states.
 */
#define DORMANT_STATE_MIXED 5

/*
 Torch allocators that there are: `dormant_torch_malloc_0` to `dormant_torch_malloc_127`.
 */
#define DORMANT_TORCH_SLOTS 128

/*
 What a call answers. The numbers never change.
 */
enum DormantStatus
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   Done.
   */
  DORMANT_STATUS_OK = 0,
  /*
   The device has not enough free memory now; the same call may work later.
   */
  DORMANT_STATUS_OUT_OF_MEMORY = 1,
  /*
   The request can never be met.
   */
  DORMANT_STATUS_TOO_LARGE = 2,
  /*
   The driver, the device or this build does not offer it.
   */
  DORMANT_STATUS_NOT_SUPPORTED = 3,
  /*
   An argument is wrong; the same call will never work.
   */
  DORMANT_STATUS_INVALID_ARGUMENT = 4,
  /*
   No memory of ours is at that address, or there is no such device.
   */
  DORMANT_STATUS_NOT_FOUND = 5,
  /*
   The block exists, but not in the state that the call needs.
   */
  DORMANT_STATUS_WRONG_STATE = 6,
  /*
   Somebody else is at it: work in flight, a transition, a capture. Nothing changed.
   */
  DORMANT_STATUS_BUSY = 7,
  /*
   The device is gone for this process.
   */
  DORMANT_STATUS_DEVICE_LOST = 8,
  /*
   An earlier piece of work on the device failed, and the driver says so only now.
   */
  DORMANT_STATUS_EARLIER_WORK_FAILED = 9,
  /*
   The driver did not give the same address back.
   */
  DORMANT_STATUS_ADDRESS_LOST = 10,
  /*
   The driver left the block in an unknown state.
   */
  DORMANT_STATUS_POISONED = 11,
  /*
   The host has not enough memory, or the limit for backups does not allow it.
   */
  DORMANT_STATUS_HOST_MEMORY = 12,
  /*
   A file or directory could not be made, written or read.
   */
  DORMANT_STATUS_IO = 13,
  /*
   There is no driver library, or it is not one that can be used.
   */
  DORMANT_STATUS_NO_DRIVER = 14,
  /*
   The process is a forked child; the memory belongs to its parent.
   */
  DORMANT_STATUS_FORKED = 15,
  /*
   The driver answered with something that has no name here.
   */
  DORMANT_STATUS_UNKNOWN = 16,
  /*
   A defect of this library, caught at its edge.
   */
  DORMANT_STATUS_INTERNAL = 17,
  /*
   Two different builds of this library are in the process.
   */
  DORMANT_STATUS_TWO_BUILDS = 18,
  /*
   Saved contents are not what they were when they were saved; they are kept as they are.
   */
  DORMANT_STATUS_CHECKSUM_MISMATCH = 19,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum DormantStatus DormantStatus;
#else
typedef int32_t DormantStatus;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 The saved contents of a paused block, lent out.
 */
typedef struct DormantBackup DormantBackup;

/*
 A region on its way to another thread.
 */
typedef struct DormantCarried DormantCarried;

/*
 The thread's last error. The texts live until the thread's next failed call.
 */
typedef struct DormantError {
  /*
   `sizeof(DormantError)`.
   */
  uint32_t size;
  /*
   What the failed call answered.
   */
  DormantStatus status;
  /*
   The kind's stable name, as in `out_of_memory`.
   */
  const char *kind;
  /*
   All that is known, in one line.
   */
  const char *text;
  /*
   The driver's own error code; 0 where the driver did not answer with one.
   */
  int64_t driver_code;
  /*
   The device, or -1.
   */
  int64_t device;
  /*
   The address that it is about, or NULL.
   */
  void *address;
  /*
   Bytes that the whole call wanted; `UINT64_MAX` where that is not the matter.
   */
  uint64_t wanted_bytes;
  /*
   The device's free reading; `UINT64_MAX` where that is not the matter.
   */
  uint64_t free_bytes;
  /*
   How many blocks `dormant_last_failures` names.
   */
  uint64_t failures;
  /*
   1 if a pause had committed before it failed: its report says what was done.
   */
  uint32_t has_report;
  /*
   Zero.
   */
  uint32_t reserved;
} DormantError;

/*
 A block that a transition could not bring where it was to go. Texts live as long as the
 callback runs.
 */
typedef struct DormantFailure {
  /*
   Where the block starts.
   */
  void *address;
  /*
   Its size in bytes.
   */
  uint64_t bytes;
  /*
   Its tag.
   */
  const char *tag;
  /*
   Why.
   */
  const char *text;
  /*
   The device.
   */
  uint32_t device;
  /*
   1 if it is poisoned now; 0 if it is in the state that it had before.
   */
  uint32_t poisoned;
} DormantFailure;

/*
 Settings. `dormant_configuration` fills it with what holds.
 */
typedef struct DormantConfig {
  /*
   `sizeof(DormantConfig)`.
   */
  uint32_t size;
  /*
   Threads that copy for one device; 0: by the CPUs.
   */
  uint32_t workers;
  /*
   How long a transition waits, in ms.
   */
  uint64_t transition_timeout_ms;
  /*
   How long a free of an active block waits for its device, in ms.
   */
  uint64_t free_timeout_ms;
  /*
   How long staging stays open after its last use, in ms.
   */
  uint64_t idle_timeout_ms;
  /*
   Processes that share the node with this one.
   */
  uint32_t ranks_on_node;
  /*
   Zero.
   */
  uint32_t reserved;
  /*
   The most bytes of host memory that backups may take, what is retained between them included; 0:
   what the container and the machine leave, less `host_margin_bytes`, divided by `ranks_on_node`.
   */
  uint64_t host_limit_bytes;
  /*
   Where contents go that are kept on disk; NULL: the system's folder for temporary files, or, when
   configuring, as before.
   */
  const char *disk_directory;
  /*
   The most bytes of host memory that copies to and from disk are staged in; 0: as before.
   */
  uint64_t disk_staging_bytes;
  /*
   How host memory of backups is held where neither block nor region says: one of
   `DORMANT_HOST_MODE_...`; `DORMANT_HOST_MODE_OWN`: as before.
   */
  int32_t host_mode;
  /*
   Whether saved contents are checked where neither call, block nor region says: one of
   `DORMANT_CHECKSUM_...`; `DORMANT_CHECKSUM_OWN`: as before.
   */
  int32_t checksum;
  /*
   Host memory that is left to everybody else where there is no `host_limit_bytes`, in bytes.
   */
  uint64_t host_margin_bytes;
  /*
   The most bytes of host memory that are retained; 0: as much as backups may take, and half of
   that in the mode `DORMANT_HOST_MODE_AUTO`.
   */
  uint64_t retain_limit_bytes;
  /*
   The most bytes of disk space that the file of a device and directory keeps for the next pause,
   which writes to it quicker than to new space; `UINT64_MAX`: all that it had. 0: everything goes
   back to the disk when its blocks are resumed or freed.
   */
  uint64_t disk_keep_bytes;
} DormantConfig;

/*
 What memory gets that is allocated in a region.
 */
typedef struct DormantRegion {
  /*
   `sizeof(DormantRegion)`.
   */
  uint32_t size;
  /*
   One of `DORMANT_POLICY_...`.
   */
  int32_t policy;
  /*
   The tag. NULL: `default`.
   */
  const char *tag;
  /*
   Devices that may use the memory beside its owner.
   */
  const uint32_t *peers;
  /*
   How many.
   */
  size_t peer_count;
  /*
   Where contents go that are kept on disk. NULL: where the configuration says.
   */
  const char *disk_directory;
  /*
   How host memory of its backups is held: one of `DORMANT_HOST_MODE_...`.
   */
  int32_t host_mode;
  /*
   Whether its saved contents are checked: one of `DORMANT_CHECKSUM_...`.
   */
  int32_t checksum;
} DormantRegion;

/*
 One block. From a callback the tag's text lives as long as the callback runs; from
 `dormant_find` until the thread's next call of it.
 */
typedef struct DormantBlock {
  /*
   `sizeof(DormantBlock)`.
   */
  uint32_t size;
  /*
   The owner device.
   */
  uint32_t device;
  /*
   One of `DORMANT_STATE_...`.
   */
  int32_t state;
  /*
   One of `DORMANT_POLICY_...`.
   */
  int32_t policy;
  /*
   One of a kind in this process, also where an address is handed out again.
   */
  uint64_t id;
  /*
   Where it starts.
   */
  void *address;
  /*
   The size that was asked for, in bytes.
   */
  uint64_t bytes;
  /*
   The size on the device, in bytes.
   */
  uint64_t physical_bytes;
  /*
   The tag.
   */
  const char *tag;
} DormantBlock;

/*
 How to pause.
 */
typedef struct DormantPauseOptions {
  /*
   `sizeof(DormantPauseOptions)`.
   */
  uint32_t size;
  /*
   Overrides the policy of the blocks that this call pauses; `DORMANT_POLICY_OWN` does not.
   */
  int32_t policy;
  /*
   How long to wait for another transition and for work in flight, in ms; negative: as
   configured.
   */
  int64_t timeout_ms;
  /*
   Overrides whether the contents that this call saves are checked: one of
   `DORMANT_CHECKSUM_...`; `DORMANT_CHECKSUM_OWN` does not.
   */
  int32_t checksum;
  /*
   Overrides how the host memory of the backups that this call makes is held: one of
   `DORMANT_HOST_MODE_...`; `DORMANT_HOST_MODE_OWN` does not.
   */
  int32_t host_mode;
} DormantPauseOptions;

/*
 Blocks and bytes.
 */
typedef struct DormantAmount {
  /*
   How many blocks.
   */
  uint64_t blocks;
  /*
   How many bytes.
   */
  uint64_t bytes;
} DormantAmount;

/*
 What one pause or resume did, all tags and devices together; `dormant_report_tags` and
 `dormant_report_devices` give the parts.
 */
typedef struct DormantReport {
  /*
   `sizeof(DormantReport)`.
   */
  uint32_t size;
  /*
   Threads that copied.
   */
  uint32_t workers;
  /*
   Physical bytes given back by a pause, or taken by a resume.
   */
  struct DormantAmount moved;
  /*
   Bytes saved by a pause, or brought back by a resume.
   */
  struct DormantAmount copied;
  /*
   Bytes set to zero.
   */
  struct DormantAmount zeroed;
  /*
   Blocks that were in the wanted state already.
   */
  struct DormantAmount already;
  /*
   Blocks that take part in nothing any more.
   */
  struct DormantAmount poisoned;
  /*
   Waiting for another transition, in ns; so are the others.
   */
  uint64_t turn_ns;
  /*
   Pause: waiting for work in flight.
   */
  uint64_t quiesce_ns;
  /*
   Pause: taking host memory and disk space. Resume: creating physical memory.
   */
  uint64_t create_ns;
  /*
   Pause: unmapping and releasing. Resume: mapping.
   */
  uint64_t map_ns;
  /*
   Copying and filling.
   */
  uint64_t copy_ns;
  /*
   The whole call.
   */
  uint64_t total_ns;
  /*
   How host memory of these backups is held, as text: `retain`, `reclaim`, `mixed`, or `none`
   where there are none.
   */
  char host_mode[16];
  /*
   1 if every staging buffer could be registered; copies are slower where not.
   */
  uint32_t staging_registered;
  /*
   What works less well than it could and no report has said before: bits of
   `DORMANT_NOTICE_...`; `dormant_notice_text` has words for each.
   */
  uint32_t notices;
  /*
   Pause: why it is held so, as text: `asked`; with `DORMANT_HOST_MODE_AUTO` `share_allows` or
   `share_too_small`; `retain_limit` where the limit on retained memory was met.
   */
  char host_mode_reason[32];
} DormantReport;

/*
 How to resume.
 */
typedef struct DormantResumeOptions {
  /*
   `sizeof(DormantResumeOptions)`.
   */
  uint32_t size;
  /*
   Zero.
   */
  uint32_t reserved;
  /*
   How long to wait for another transition, in ms; negative: as configured.
   */
  int64_t timeout_ms;
  /*
   How long to try again when memory is short, in ms.
   */
  int64_t wait_for_memory_ms;
} DormantResumeOptions;

/*
 What happened to one tag on one device. The tag's text lives as long as the callback runs.
 */
typedef struct DormantTagReport {
  /*
   The tag.
   */
  const char *tag;
  /*
   The device.
   */
  uint32_t device;
  /*
   Zero.
   */
  uint32_t reserved;
  /*
   As in `DormantReport`.
   */
  struct DormantAmount moved;
  /*
   As in `DormantReport`.
   */
  struct DormantAmount copied;
  /*
   As in `DormantReport`.
   */
  struct DormantAmount zeroed;
  /*
   As in `DormantReport`.
   */
  struct DormantAmount already;
  /*
   As in `DormantReport`.
   */
  struct DormantAmount poisoned;
} DormantTagReport;

/*
 A device's own free reading around a call. Other processes move it.
 */
typedef struct DormantDeviceReport {
  /*
   The device.
   */
  uint32_t device;
  /*
   1 after a pause that gave memory back by our count, if the reading did not rise.
   */
  uint32_t freed_nothing;
  /*
   Physical bytes given back or taken, by our own count.
   */
  uint64_t moved_bytes;
  /*
   Free bytes before; `UINT64_MAX` where the device could not be asked.
   */
  uint64_t free_before;
  /*
   Free bytes after; `UINT64_MAX` where the device could not be asked.
   */
  uint64_t free_after;
} DormantDeviceReport;

/*
 How to prepare.
 */
typedef struct DormantPrepareOptions {
  /*
   `sizeof(DormantPrepareOptions)`.
   */
  uint32_t size;
  /*
   Not 0: host memory is registered when the call has returned.
   */
  uint32_t background;
  /*
   For a pause with this in `DormantPauseOptions.host_mode`.
   */
  int32_t host_mode;
  /*
   Zero.
   */
  uint32_t reserved;
} DormantPrepareOptions;

/*
 What `dormant_prepare` has done.
 */
typedef struct DormantPrepared {
  /*
   `sizeof(DormantPrepared)`.
   */
  uint32_t size;
  /*
   1 if all memory that is retained is registered; in the background it is not known yet.
   */
  uint32_t registered;
  /*
   Bytes of backups for which memory is retained now, in whole pages.
   */
  uint64_t bytes;
} DormantPrepared;

/*
 What a pause would come to, all tags and devices together.
 */
typedef struct DormantPlan {
  /*
   `sizeof(DormantPlan)`.
   */
  uint32_t size;
  /*
   Zero.
   */
  uint32_t reserved;
  /*
   Physical bytes that the devices would get back.
   */
  struct DormantAmount freed;
  /*
   Contents that would be saved in host memory.
   */
  struct DormantAmount host;
  /*
   Contents that would be saved on disk.
   */
  struct DormantAmount disk;
  /*
   Host memory that would have to be taken, in bytes of whole pages: what is not retained already.
   */
  uint64_t host_wanted_bytes;
  /*
   Host memory that this process may take, in bytes; `UINT64_MAX` where nothing limits it.
   */
  uint64_t host_allowed_bytes;
  /*
   What of `host_wanted_bytes` is not allowed; 0: there is enough. Processes that pause together
   can take the maximum of this number over all of them, and pause where that is 0.
   */
  uint64_t host_short_bytes;
} DormantPlan;

/*
 A device. The name lives as long as the callback runs.
 */
typedef struct DormantDevice {
  /*
   The vendor's name for it.
   */
  const char *name;
  /*
   Its ordinal.
   */
  uint32_t device;
  /*
   Zero.
   */
  uint32_t reserved;
  /*
   Bytes that it has.
   */
  uint64_t total_bytes;
} DormantDevice;

/*
 Everything, counted up.
 */
typedef struct DormantStats {
  /*
   `sizeof(DormantStats)`.
   */
  uint32_t size;
  /*
   Zero.
   */
  uint32_t reserved;
  /*
   Host memory that backups take, in bytes of whole pages.
   */
  uint64_t host_backup_bytes;
  /*
   Active blocks whose free waits for a capture to end, or for the device.
   */
  uint64_t deferred_frees;
  /*
   Frees that failed where nobody could be told.
   */
  uint64_t failed_frees;
  /*
   Address ranges dropped without being given back.
   */
  uint64_t leaked_ranges;
  /*
   Physical handles dropped without being released.
   */
  uint64_t leaked_handles;
  /*
   Bytes that backups take on disk.
   */
  uint64_t disk_backup_bytes;
  /*
   Host memory that is retained between pauses, in bytes, whether a backup is in it or not.
   */
  uint64_t host_retained_bytes;
  /*
   Disk space that the files of backups take, in bytes, with what they keep for the next pause.
   */
  uint64_t disk_file_bytes;
} DormantStats;

/*
 What one tag has on one device. The tag's text lives as long as the callback runs.
 */
typedef struct DormantTagStats {
  /*
   The tag.
   */
  const char *tag;
  /*
   The device.
   */
  uint32_t device;
  /*
   Zero.
   */
  uint32_t reserved;
  /*
   Blocks in use, physical bytes.
   */
  struct DormantAmount active;
  /*
   Blocks that sleep, and the physical bytes that they will want.
   */
  struct DormantAmount paused;
  /*
   Blocks that a transition is at, physical bytes.
   */
  struct DormantAmount moving;
  /*
   Blocks that the driver left in an unknown state, physical bytes.
   */
  struct DormantAmount poisoned;
  /*
   Saved contents of blocks that sleep.
   */
  struct DormantAmount saved;
} DormantTagStats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Fills `error` with the thread's last error: of its last call that failed. `NotFound` if none has.

 # Safety
 `error` is a `DormantError` whose `size` is set.
 */
DormantStatus dormant_last_error(struct DormantError *error);

/*
 Calls `each` for every block that the thread's last error names.

 # Safety
 `each` can be called with `user` now; it calls nothing of this library.
 */
void dormant_last_failures(void (*each)(const struct DormantFailure*, void*), void *user);

/*
 The version, as `0.1.0`. Lives for ever.
 */
const char *dormant_version(void);

/*
 Which build this is, in one line: version, commit, backends, target. Of the file that has the
 engine, if that is another one. Lives for ever.
 */
const char *dormant_build(void);

/*
 What this build is, as one JSON object: `version`, `commit` and `source` (the hash of the source
 tree; null where unknown), `dirty`, `features` (the backends compiled in), `target`, `profile`,
 `rustc`, `guarantees` (stable names of what it promises). The file has the same as an ELF note.
 Of the file that has the engine, if that is another one. Lives for ever.
 */
const char *dormant_build_info(void);

/*
 The path of the library file that is in use: of this one, or of the one that has the engine, if that
 is another. NULL where the loader does not say. Lives for ever.
 */
const char *dormant_library_path(void);

/*
 Fills `config` with the settings that hold, or that the first use would take from the environment.
 The directory's text lives until the thread's next call of this.

 # Safety
 `config` is a `DormantConfig` whose `size` is set.
 */
DormantStatus dormant_configuration(struct DormantConfig *config);

/*
 Chooses the settings, before the first use; `WrongState` afterwards. Begin with what
 `dormant_configuration` fills in.

 # Safety
 `config` is a `DormantConfig` whose `size` is set, and what it points to is there.
 */
DormantStatus dormant_configure(const struct DormantConfig *config);

/*
 Enters a region on this thread: memory that is allocated on it from now on gets these settings.
 Regions nest. `entered` is for `dormant_region_pop`.

 # Safety
 `region` is a `DormantRegion` whose `size` is set, and what it points to is there; `entered` can
 be written.
 */
DormantStatus dormant_region_push(const struct DormantRegion *region, uint64_t *entered);

/*
 Enters a region in which new memory of this thread is not ours.

 # Safety
 `entered` can be written.
 */
DormantStatus dormant_region_push_disabled(uint64_t *entered);

/*
 Leaves a region of this thread, and those that were entered inside and not left. `NotFound` if
 the thread is not in it.
 */
DormantStatus dormant_region_pop(uint64_t entered);

/*
 What holds on this thread now; `on` becomes 1 if new memory is ours, else 0. The texts live until
 the thread's next call of this.

 # Safety
 `region` is a `DormantRegion` whose `size` is set; `on` can be written.
 */
DormantStatus dormant_region_current(struct DormantRegion *region, uint32_t *on);

/*
 Takes what holds on this thread, to enter it on another one. Give it back with
 `dormant_carried_free`.

 # Safety
 `carried` can be written.
 */
DormantStatus dormant_region_carry(struct DormantCarried **carried);

/*
 Enters on this thread what was carried; as often as wanted.

 # Safety
 `carried` is from `dormant_region_carry` and not given back; `entered` can be written.
 */
DormantStatus dormant_carried_push(const struct DormantCarried *carried, uint64_t *entered);

/*
 Gives back what `dormant_region_carry` made. NULL is fine.

 # Safety
 `carried` is NULL, or from `dormant_region_carry` and not given back before.
 */
void dormant_carried_free(struct DormantCarried *carried);

/*
 Allocates `bytes` on a device. With a region of NULL this thread's innermost one holds; outside
 any, the tag is `default` and contents are discarded.

 # Safety
 `region` is NULL or as for `dormant_region_push`; `result` can be written.
 */
DormantStatus dormant_allocate(size_t bytes,
                               uint32_t device,
                               const struct DormantRegion *region,
                               void **result);

/*
 Frees a block, in whatever state it is, from any thread; NULL is fine. Never waits for a pause or
 resume. An active block's device is waited for, during a capture later.

 # Safety
 Nobody uses the block any more.
 */
DormantStatus dormant_free(void *block);

/*
 Refuses an allocation through the hooks or torch as out of memory when it would leave less than
 this free on its device. Never applied to a resume. 0, the default: no margin.
 */
void dormant_set_margin_bytes(uint64_t bytes);

/*
 What `dormant_set_margin_bytes` was given.
 */
uint64_t dormant_margin_bytes(void);

/*
 Copies from device memory to host memory; `from` may lie inside a block. Not ordered with your
 streams: synchronise them before. `WrongState` if the block is paused.

 # Safety
 `into` has room for `bytes`.
 */
DormantStatus dormant_read(const void *from, void *into, size_t bytes);

/*
 Copies from host memory to device memory; otherwise as `dormant_read`.

 # Safety
 `from` has `bytes` bytes.
 */
DormantStatus dormant_write(void *to, const void *from, size_t bytes);

/*
 Says what block an address lies in, at its start or inside. `NotFound` if it is not ours, which
 leaves the thread's last error as it was.

 # Safety
 `result` is a `DormantBlock` whose `size` is set.
 */
DormantStatus dormant_find(const void *place, struct DormantBlock *result);

/*
 Calls `each` for every block, in the order of addresses.

 # Safety
 `each` can be called with `user` now.
 */
DormantStatus dormant_blocks(void (*each)(const struct DormantBlock*, void*), void *user);

/*
 Gives the physical memory of every active block of these tags back to its device; the addresses
 stay. With `tags` NULL: of all tags. A tag without blocks is no error, nor is one that is paused.
 A failure before the first block is given up changes nothing; after that the pause goes on,
 `dormant_last_failures` names the blocks concerned, and the report says what was done.

 # Safety
 `tags` is NULL or an array of `count` texts; `options` and `report` are NULL or structs whose
 `size` is set.
 */
DormantStatus dormant_pause(const char *const *tags,
                            size_t count,
                            const struct DormantPauseOptions *options,
                            struct DormantReport *report);

/*
 Puts physical memory under every paused block of these tags and makes the contents what each
 block's policy says. With `tags` NULL: of all tags. All or nothing: a failure keeps every backup,
 and can be tried again.

 # Safety
 As for `dormant_pause`.
 */
DormantStatus dormant_resume(const char *const *tags,
                             size_t count,
                             const struct DormantResumeOptions *options,
                             struct DormantReport *report);

/*
 Calls `each` for every tag on every device of this thread's last pause or resume.

 # Safety
 `each` can be called with `user` now.
 */
void dormant_report_tags(void (*each)(const struct DormantTagReport*, void*), void *user);

/*
 Calls `each` for every device of this thread's last pause or resume.

 # Safety
 `each` can be called with `user` now.
 */
void dormant_report_devices(void (*each)(const struct DormantDeviceReport*, void*), void *user);

/*
 Makes the next pause of these tags quick: takes and registers the host memory that their backups
 will be retained in, and opens what will copy. Breaks no capture and holds up no transition.
 `dormant_trim` gives it back.

 # Safety
 `tags` is NULL, for all, or an array of `count` texts; `options` and `prepared` are NULL or structs
 whose `size` is set.
 */
DormantStatus dormant_prepare(const char *const *tags,
                              size_t count,
                              const struct DormantPrepareOptions *options,
                              struct DormantPrepared *prepared);

/*
 Says what a pause of these tags with these options would come to, for the blocks that are active
 now. Calls no driver and changes nothing. Others take memory as well, so the pause may still be
 refused, which changes nothing either.

 # Safety
 `tags` is NULL, for all, or an array of `count` texts; `options` is NULL or a struct whose `size`
 is set, as is `plan`.
 */
DormantStatus dormant_plan(const char *const *tags,
                           size_t count,
                           const struct DormantPauseOptions *options,
                           struct DormantPlan *plan);

/*
 The stable name of one bit of `DormantReport.notices`, as in `disk_in_memory`; NULL for what is
 none. Lives for ever.
 */
const char *dormant_notice_name(uint32_t notice);

/*
 A sentence for people about one bit of `DormantReport.notices`; NULL for what is none. Lives for
 ever.
 */
const char *dormant_notice_text(uint32_t notice);

/*
 Opens the driver and says which it is: `cuda`, `hip` or `sim`. NULL on failure. Lives for ever.
 */
const char *dormant_backend(void);

/*
 Calls `each` for every device, in the driver's order.

 # Safety
 `each` can be called with `user` now.
 */
DormantStatus dormant_devices(void (*each)(const struct DormantDevice*, void*), void *user);

/*
 A device's free and total bytes, as the driver reads them now. Other processes move them.

 # Safety
 Both places are NULL or can be written.
 */
DormantStatus dormant_device_memory(uint32_t device, uint64_t *free_bytes, uint64_t *total_bytes);

/*
 Everything, counted up. Calls no driver.

 # Safety
 `stats` is a `DormantStats` whose `size` is set.
 */
DormantStatus dormant_stats(struct DormantStats *stats);

/*
 Calls `each` for every tag on every device.

 # Safety
 `each` can be called with `user` now.
 */
DormantStatus dormant_tag_stats(void (*each)(const struct DormantTagStats*, void*), void *user);

/*
 What a tag's blocks are doing: one of `DORMANT_STATE_...`.

 # Safety
 `tag` is a text; `state` can be written.
 */
DormantStatus dormant_tag_state(const char *tag, int32_t *state);

/*
 Lends the saved contents of the paused block that `place` lies in, from `place` to the block's end.
 They live until `dormant_backup_release`, also when the block is resumed or freed; after a resume
 they are an old copy. `WrongState` if the block is active or nothing was saved, `NotFound` if it is not ours.

 # Safety
 The three places can be written.
 */
DormantStatus dormant_backup(const void *place,
                             struct DormantBackup **lease,
                             const void **bytes,
                             size_t *length);

/*
 Registers a loan's pages with the driver, so that copies of your own from it to a device run at the
 link's full speed. A refusal leaves the bytes as readable as before, and copies slower.

 # Safety
 `lease` is from `dormant_backup` and not ended.
 */
DormantStatus dormant_backup_register(const struct DormantBackup *lease);

/*
 Ends a loan. NULL is fine.

 # Safety
 `lease` is NULL, or from `dormant_backup` and not ended before; nobody reads the bytes any more.
 */
void dormant_backup_release(struct DormantBackup *lease);

/*
 Throws the saved contents of these tags away; the blocks wake with undefined contents. `bytes`
 becomes how many that were.

 # Safety
 `tags` is NULL, for all, or an array of `count` texts; `bytes` is NULL or can be written.
 */
DormantStatus dormant_drop_backup(const char *const *tags, size_t count, uint64_t *bytes);

/*
 Gives back what is kept for the next transition: retained host memory and disk space that no contents
 are in, staging memory and streams. `bytes` becomes how much retained memory that was.

 # Safety
 `bytes` is NULL or can be written.
 */
DormantStatus dormant_trim(uint64_t *bytes);

/*
 Says that a stream capture begins: until `dormant_capture_end` pauses are refused as busy, and
 frees of active blocks are put off. With our hooks preloaded that happens by itself.

 # Safety
 `capture` can be written.
 */
DormantStatus dormant_capture_begin(uint64_t *capture);

/*
 Says that a capture has ended. `NotFound` for one that is not going on.
 */
DormantStatus dormant_capture_end(uint64_t capture);

/*
 Lets kernels of `peer` use every block on `owner`, those to come as well. With our hooks
 preloaded `cudaDeviceEnablePeerAccess` does that.
 */
DormantStatus dormant_enable_peer_access(uint32_t peer, uint32_t owner);

/*
 Takes back what `dormant_enable_peer_access` gave.
 */
DormantStatus dormant_disable_peer_access(uint32_t peer, uint32_t owner);

/*
 Gives the settings of a region a pair of functions for torch's `CUDAPluggableAllocator`:
 `dormant_torch_malloc_<slot>` and `dormant_torch_free`. The same settings get the same slot; it
 is theirs for good. `NotSupported` when all `DORMANT_TORCH_SLOTS` are taken.

 # Safety
 As for `dormant_region_push`; `slot` can be written.
 */
DormantStatus dormant_torch_slot(const struct DormantRegion *region, uint32_t *slot);

/*
 Frees what a `dormant_torch_malloc_...` gave, in whatever state, from any thread. Torch cannot be told
 of a failure: a device that is busy puts the free off, other failures are counted in `DormantStats`.

 # Safety
 Nobody uses the block any more.
 */
void dormant_torch_free(void *block,
                        ptrdiff_t bytes,
                        int32_t device,
                        void *stream);

/*
 Which hooks of the process are ours: bit 0 says that `cudaMalloc`, as libraries that are loaded now bind
 to it, is a hook of dormant that leads to this engine; bit 1 says so of `hipMalloc`.
 */
uint32_t dormant_hooks_bound(void);

/*
 Runs the conformance suite of this build on devices, in engines of its own beside the process's:
 no block of the caller's is touched. Takes half a minute on a GPU and up to `limit_bytes` of each
 device's memory (0: 1 GiB), beside what the driver takes for a context, and as much host memory.
 Others may use the devices meanwhile; with `alone` nobody does, and the device's own reading of
 free memory has to be right to the byte.

 `backend` is `cuda`, `hip` or `sim`; NULL takes the one that would be opened otherwise. `devices` are the
 ordinals of one or two. `each` is called for every case as it ends, on this thread, with texts that
 live as long as the call: area, name, `DORMANT_CASE_...`, milliseconds, and why it failed, else NULL.

 Answers `DORMANT_STATUS_OK` when all cases were run, whatever they found; `Busy` during a known graph
 capture, which the suite would break. Runs of several threads take turns; `each` must not begin one.

 # Safety
 `backend` is NULL or a text, `devices` an array of `count` ordinals, `each` a function that does
 not unwind.
 */
DormantStatus dormant_verify(const char *backend,
                             const uint32_t *devices,
                             size_t count,
                             uint64_t limit_bytes,
                             int32_t alone,
                             void (*each)(const char *area,
                                          const char *name,
                                          int32_t outcome,
                                          uint64_t ms,
                                          const char *reason,
                                          void *user),
                             void *user);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DORMANT_H */
