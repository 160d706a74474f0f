//! Names and versions, as tools see them.

use std::path::Path;
use std::process::Command;

use dormant_tests::c::run;
use dormant_tests::doubles::{Double, Folder};

/// What tests may ask of any stand-in with a machine.
const CONTROL: &[&str] = &[
    "double_calls",
    "double_configure",
    "double_contexts",
    "double_contexts_made",
    "double_reset",
];

const CUDA: &str = "
    cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxGetCurrent cuCtxGetDevice cuCtxRecordEvent
    cuCtxSetCurrent cuCtxSynchronize cuDeviceCanAccessPeer cuDeviceGet cuDeviceGetAttribute
    cuDeviceGetCount cuDeviceGetName cuDeviceGetPCIBusId cuDevicePrimaryCtxGetState
    cuDevicePrimaryCtxRelease_v2
    cuDevicePrimaryCtxRetain cuDeviceTotalMem_v2 cuDriverGetVersion cuEventCreate cuEventDestroy_v2
    cuEventQuery cuEventRecord cuEventSynchronize cuGetErrorName cuGetErrorString
    cuGetProcAddress_v2 cuGraphCreate cuGraphDestroy cuGraphExecDestroy cuGraphInstantiateWithFlags
    cuGraphLaunch cuInit cuIpcGetMemHandle cuMemAddressFree cuMemAddressReserve cuMemAllocHost_v2
    cuMemAlloc_v2 cuMemCreate cuMemExportToShareableHandle cuMemFreeHost cuMemFree_v2 cuMemGetAccess
    cuMemGetAddressRange_v2 cuMemGetAllocationGranularity cuMemGetInfo_v2 cuMemHostAlloc
    cuMemHostRegister_v2 cuMemHostUnregister cuMemMap cuMemRelease cuMemRetainAllocationHandle
    cuMemSetAccess cuMemUnmap cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2 cuMemcpyDtoHAsync_v2
    cuMemcpyDtoH_v2 cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2 cuMemsetD8Async cuMemsetD8_v2
    cuPointerGetAttribute cuStreamBeginCaptureToGraph cuStreamBeginCapture_v2 cuStreamCreate
    cuStreamDestroy_v2 cuStreamEndCapture cuStreamIsCapturing cuStreamQuery cuStreamSynchronize
    cuStreamWaitEvent cuThreadExchangeStreamCaptureMode double_launch";

const HIP: &str = "
    hipDeviceCanAccessPeer hipDeviceDisablePeerAccess hipDeviceEnablePeerAccess hipDeviceGet
    hipDeviceGetAttribute hipDeviceGetName hipDeviceGetPCIBusId hipDevicePrimaryCtxGetState
    hipDeviceSynchronize
    hipDeviceTotalMem hipDriverGetVersion hipDrvGetErrorName hipDrvGetErrorString hipFree
    hipGetDevice hipGetDeviceCount hipGetErrorName hipGetErrorString hipGetLastError hipGraphCreate
    hipGraphDestroy hipHostFree hipHostMalloc hipHostRegister hipHostUnregister hipInit
    hipIpcGetMemHandle hipMalloc hipMemAddressFree hipMemAddressReserve hipMemCreate hipMemGetAccess
    hipMemGetAllocationGranularity hipMemGetInfo hipMemMap hipMemRelease
    hipMemRetainAllocationHandle hipMemSetAccess hipMemUnmap hipMemcpy hipMemcpyDtoHAsync
    hipMemcpyHtoDAsync hipMemset hipMemsetAsync hipMemsetD8Async hipPeekAtLastError
    hipRuntimeGetVersion hipSetDevice hipStreamBeginCapture hipStreamBeginCaptureToGraph
    hipStreamBeginCapture_spt hipStreamCreate hipStreamCreateWithFlags hipStreamDestroy
    hipStreamEndCapture hipStreamEndCapture_spt hipStreamIsCapturing hipStreamSynchronize
    hipThreadExchangeStreamCaptureMode";

const CUDART: &str = "
    cudaDeviceCanAccessPeer cudaDeviceDisablePeerAccess cudaDeviceEnablePeerAccess
    cudaDeviceSynchronize cudaFree cudaFreeHost cudaGetDevice cudaGetDeviceCount cudaGetErrorName
    cudaGetErrorString cudaGetLastError cudaGraphCreate cudaGraphDestroy cudaHostAlloc
    cudaIpcGetMemHandle cudaMalloc cudaMallocHost cudaMemGetInfo cudaMemcpy cudaMemcpyAsync
    cudaMemset cudaMemsetAsync cudaPeekAtLastError cudaSetDevice cudaStreamBeginCapture
    cudaStreamBeginCaptureToGraph cudaStreamBeginCapture_ptsz cudaStreamCreate
    cudaStreamCreateWithFlags cudaStreamDestroy cudaStreamEndCapture cudaStreamEndCapture_ptsz
    cudaStreamIsCapturing cudaStreamSynchronize cudaThreadExchangeStreamCaptureMode";

fn exported(library: &Path) -> Vec<String> {
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let mut names: Vec<_> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned))
        .collect();
    names.sort_unstable();
    names
}

fn soname(library: &Path) -> String {
    let output = run(Command::new("readelf").arg("-d").arg(library));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("(SONAME)")).expect("a SONAME");
    line.split(['[', ']']).nth(1).expect("a name in brackets").to_owned()
}

fn sorted(names: &str, more: &[&str], version: &str) -> Vec<String> {
    let names = names.split_whitespace().chain(more.iter().copied());
    let mut names: Vec<_> = names.map(|name| format!("{name}{version}")).collect();
    names.sort_unstable();
    names
}

#[test]
fn each_stand_in_exports_exactly_what_it_is_known_for() {
    assert_eq!(exported(&Double::Cuda.file()), sorted(CUDA, CONTROL, ""));
    assert_eq!(exported(&Double::Hip.file()), sorted(HIP, CONTROL, ""));
}

#[test]
fn each_stand_in_has_the_real_librarys_soname_and_another_file_name() {
    for double in [Double::Cuda, Double::Hip] {
        assert_eq!(soname(&double.file()), double.soname());
        let file = double.file();
        let name = file.file_name().expect("a file name").to_string_lossy();
        assert!(name.starts_with("libdouble_"), "{name}");
    }
}

#[test]
fn the_runtime_is_linked_once_per_version_with_versioned_symbols() {
    let folder = Folder::new(&[]).with_cudart(12).with_cudart(13);
    for version in ["libcudart.so.12", "libcudart.so.13"] {
        let library = folder.path().join(version);
        assert_eq!(soname(&library), version);
        // The version itself is a name without one.
        let names = sorted(CUDART, &[], &format!("@@{version}"));
        let mut found = exported(&library);
        found.retain(|name| name != version);
        assert_eq!(found, names);
    }
}
