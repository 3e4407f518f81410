// SPDX-License-Identifier: GPL-2.0-only
/// Prints each number and layout of cuFile's interface. Built once with weft's header and once with NVIDIA's,
/// it has to print the same: tests/gpu compares them.
#include <cstddef>
#include <cstdio>
#include <cufile.h>

#define NUMBER(name) std::printf("%s %ld\n", #name, static_cast<long>(name))
#define SIZE(type) std::printf("sizeof(%s) %zu\n", #type, sizeof(type))
#define PLACE(type, field)                                                                                   \
    std::printf("%s.%s at %zu, %zu bytes\n", #type, #field, offsetof(type, field),                           \
                sizeof(static_cast<type*>(nullptr)->field))
/// Does not compile where the function has other arguments.
#define FUNCTION(name, result, ...)                                                                          \
    {                                                                                                        \
        result (*const function)(__VA_ARGS__) = name;                                                        \
        std::printf("%s %d\n", #name, function != nullptr);                                                  \
    }

int main()
{
    NUMBER(CUFILEOP_BASE_ERR);
    NUMBER(CU_FILE_RDMA_REGISTER);
    NUMBER(CU_FILE_RDMA_RELAXED_ORDERING);
    NUMBER(CU_FILE_STREAM_FIXED_BUF_OFFSET);
    NUMBER(CU_FILE_STREAM_FIXED_FILE_OFFSET);
    NUMBER(CU_FILE_STREAM_FIXED_FILE_SIZE);
    NUMBER(CU_FILE_STREAM_PAGE_ALIGNED_INPUTS);
    NUMBER(CU_FILE_SUCCESS);
    NUMBER(CU_FILE_DRIVER_NOT_INITIALIZED);
    NUMBER(CU_FILE_DRIVER_INVALID_PROPS);
    NUMBER(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
    NUMBER(CU_FILE_DRIVER_VERSION_MISMATCH);
    NUMBER(CU_FILE_DRIVER_VERSION_READ_ERROR);
    NUMBER(CU_FILE_DRIVER_CLOSING);
    NUMBER(CU_FILE_PLATFORM_NOT_SUPPORTED);
    NUMBER(CU_FILE_IO_NOT_SUPPORTED);
    NUMBER(CU_FILE_DEVICE_NOT_SUPPORTED);
    NUMBER(CU_FILE_NVFS_DRIVER_ERROR);
    NUMBER(CU_FILE_CUDA_DRIVER_ERROR);
    NUMBER(CU_FILE_CUDA_POINTER_INVALID);
    NUMBER(CU_FILE_CUDA_MEMORY_TYPE_INVALID);
    NUMBER(CU_FILE_CUDA_POINTER_RANGE_ERROR);
    NUMBER(CU_FILE_CUDA_CONTEXT_MISMATCH);
    NUMBER(CU_FILE_INVALID_MAPPING_SIZE);
    NUMBER(CU_FILE_INVALID_MAPPING_RANGE);
    NUMBER(CU_FILE_INVALID_FILE_TYPE);
    NUMBER(CU_FILE_INVALID_FILE_OPEN_FLAG);
    NUMBER(CU_FILE_DIO_NOT_SET);
    NUMBER(CU_FILE_INVALID_VALUE);
    NUMBER(CU_FILE_MEMORY_ALREADY_REGISTERED);
    NUMBER(CU_FILE_MEMORY_NOT_REGISTERED);
    NUMBER(CU_FILE_PERMISSION_DENIED);
    NUMBER(CU_FILE_DRIVER_ALREADY_OPEN);
    NUMBER(CU_FILE_HANDLE_NOT_REGISTERED);
    NUMBER(CU_FILE_HANDLE_ALREADY_REGISTERED);
    NUMBER(CU_FILE_DEVICE_NOT_FOUND);
    NUMBER(CU_FILE_INTERNAL_ERROR);
    NUMBER(CU_FILE_GETNEWFD_FAILED);
    NUMBER(CU_FILE_NVFS_SETUP_ERROR);
    NUMBER(CU_FILE_IO_DISABLED);
    NUMBER(CU_FILE_BATCH_SUBMIT_FAILED);
    NUMBER(CU_FILE_GPU_MEMORY_PINNING_FAILED);
    NUMBER(CU_FILE_BATCH_FULL);
    NUMBER(CU_FILE_ASYNC_NOT_SUPPORTED);
    NUMBER(CU_FILE_LUSTRE_SUPPORTED);
    NUMBER(CU_FILE_WEKAFS_SUPPORTED);
    NUMBER(CU_FILE_NFS_SUPPORTED);
    NUMBER(CU_FILE_GPFS_SUPPORTED);
    NUMBER(CU_FILE_NVME_SUPPORTED);
    NUMBER(CU_FILE_NVMEOF_SUPPORTED);
    NUMBER(CU_FILE_SCSI_SUPPORTED);
    NUMBER(CU_FILE_SCALEFLUX_CSD_SUPPORTED);
    NUMBER(CU_FILE_NVMESH_SUPPORTED);
    NUMBER(CU_FILE_BEEGFS_SUPPORTED);
    NUMBER(CU_FILE_NVME_P2P_SUPPORTED);
    NUMBER(CU_FILE_SCATEFS_SUPPORTED);
    NUMBER(CU_FILE_USE_POLL_MODE);
    NUMBER(CU_FILE_ALLOW_COMPAT_MODE);
    NUMBER(CU_FILE_DYN_ROUTING_SUPPORTED);
    NUMBER(CU_FILE_BATCH_IO_SUPPORTED);
    NUMBER(CU_FILE_STREAMS_SUPPORTED);
    NUMBER(CU_FILE_PARALLEL_IO_SUPPORTED);
    NUMBER(CUFILE_READ);
    NUMBER(CUFILE_WRITE);
    NUMBER(CUFILE_WAITING);
    NUMBER(CUFILE_PENDING);
    NUMBER(CUFILE_INVALID);
    NUMBER(CUFILE_CANCELED);
    NUMBER(CUFILE_COMPLETE);
    NUMBER(CUFILE_TIMEOUT);
    NUMBER(CUFILE_FAILED);
    NUMBER(CUFILE_BATCH);
    NUMBER(CU_FILE_HANDLE_TYPE_OPAQUE_FD);
    NUMBER(CU_FILE_HANDLE_TYPE_OPAQUE_WIN32);
    NUMBER(CU_FILE_HANDLE_TYPE_USERSPACE_FS);
    SIZE(CUfileError_t);
    PLACE(CUfileError_t, err);
    PLACE(CUfileError_t, cu_err);
    SIZE(CUfileDrvProps_t);
    PLACE(CUfileDrvProps_t, nvfs.major_version);
    PLACE(CUfileDrvProps_t, nvfs.minor_version);
    PLACE(CUfileDrvProps_t, nvfs.poll_thresh_size);
    PLACE(CUfileDrvProps_t, nvfs.max_direct_io_size);
    PLACE(CUfileDrvProps_t, nvfs.dstatusflags);
    PLACE(CUfileDrvProps_t, nvfs.dcontrolflags);
    PLACE(CUfileDrvProps_t, fflags);
    PLACE(CUfileDrvProps_t, max_device_cache_size);
    PLACE(CUfileDrvProps_t, per_buffer_cache_size);
    PLACE(CUfileDrvProps_t, max_device_pinned_mem_size);
    PLACE(CUfileDrvProps_t, max_batch_io_size);
    PLACE(CUfileDrvProps_t, max_batch_io_timeout_msecs);
    SIZE(cufileRDMAInfo_t);
    PLACE(cufileRDMAInfo_t, version);
    PLACE(cufileRDMAInfo_t, desc_len);
    PLACE(cufileRDMAInfo_t, desc_str);
    SIZE(CUfileFSOps_t);
    PLACE(CUfileFSOps_t, fs_type);
    PLACE(CUfileFSOps_t, getRDMADeviceList);
    PLACE(CUfileFSOps_t, getRDMADevicePriority);
    PLACE(CUfileFSOps_t, read);
    PLACE(CUfileFSOps_t, write);
    SIZE(CUfileDescr_t);
    PLACE(CUfileDescr_t, type);
    PLACE(CUfileDescr_t, handle);
    PLACE(CUfileDescr_t, fs_ops);
    SIZE(CUfileIOParams_t);
    PLACE(CUfileIOParams_t, mode);
    PLACE(CUfileIOParams_t, u.batch.devPtr_base);
    PLACE(CUfileIOParams_t, u.batch.file_offset);
    PLACE(CUfileIOParams_t, u.batch.devPtr_offset);
    PLACE(CUfileIOParams_t, u.batch.size);
    PLACE(CUfileIOParams_t, fh);
    PLACE(CUfileIOParams_t, opcode);
    PLACE(CUfileIOParams_t, cookie);
    SIZE(CUfileIOEvents_t);
    PLACE(CUfileIOEvents_t, cookie);
    PLACE(CUfileIOEvents_t, status);
    PLACE(CUfileIOEvents_t, ret);
    FUNCTION(cuFileHandleRegister, CUfileError_t, CUfileHandle_t*, CUfileDescr_t*)
    FUNCTION(cuFileHandleDeregister, void, CUfileHandle_t)
    FUNCTION(cuFileBufRegister, CUfileError_t, const void*, size_t, int)
    FUNCTION(cuFileBufDeregister, CUfileError_t, const void*)
    FUNCTION(cuFileRead, ssize_t, CUfileHandle_t, void*, size_t, off_t, off_t)
    FUNCTION(cuFileWrite, ssize_t, CUfileHandle_t, const void*, size_t, off_t, off_t)
    FUNCTION(cuFileDriverOpen, CUfileError_t)
    FUNCTION(cuFileDriverClose, CUfileError_t)
    FUNCTION(cuFileUseCount, long)
    FUNCTION(cuFileDriverGetProperties, CUfileError_t, CUfileDrvProps_t*)
    FUNCTION(cuFileDriverSetPollMode, CUfileError_t, bool, size_t)
    FUNCTION(cuFileDriverSetMaxDirectIOSize, CUfileError_t, size_t)
    FUNCTION(cuFileDriverSetMaxCacheSize, CUfileError_t, size_t)
    FUNCTION(cuFileDriverSetMaxPinnedMemSize, CUfileError_t, size_t)
    FUNCTION(cuFileGetVersion, CUfileError_t, int*)
    FUNCTION(cuFileBatchIOSetUp, CUfileError_t, CUfileBatchHandle_t*, unsigned)
    FUNCTION(cuFileBatchIOSubmit, CUfileError_t, CUfileBatchHandle_t, unsigned, CUfileIOParams_t*,
             unsigned int)
    FUNCTION(cuFileBatchIOGetStatus, CUfileError_t, CUfileBatchHandle_t, unsigned, unsigned*,
             CUfileIOEvents_t*, struct timespec*)
    FUNCTION(cuFileBatchIOCancel, CUfileError_t, CUfileBatchHandle_t)
    FUNCTION(cuFileBatchIODestroy, void, CUfileBatchHandle_t)
    FUNCTION(cuFileReadAsync, CUfileError_t, CUfileHandle_t, void*, size_t*, off_t*, off_t*, ssize_t*,
             CUstream)
    FUNCTION(cuFileWriteAsync, CUfileError_t, CUfileHandle_t, void*, size_t*, off_t*, off_t*, ssize_t*,
             CUstream)
    FUNCTION(cuFileStreamRegister, CUfileError_t, CUstream, unsigned)
    FUNCTION(cuFileStreamDeregister, CUfileError_t, CUstream)
}
