/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The interface of libcufile.so.0, as libweft-cufile provides it: programs that are built against this header, or against
 * NVIDIA's, run with either library. Names, values and layouts are those of cuFile's public interface, version 1.13.
 *
 * Sizes and offsets are in bytes; only the limits of the driver are in KiB. All functions may be called in any thread.
 * Memory is of CUDA or of the host; memory that was registered has to stay until it is deregistered.
 */
#ifndef WEFT_CUFILE_H
#define WEFT_CUFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#else
/* The types of CUDA's driver interface that are used here. */
typedef int CUresult;
typedef struct CUstream_st *CUstream;
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CUFILEOP_BASE_ERR 5000

typedef enum CUfileOpError {
	CU_FILE_SUCCESS = 0,
	CU_FILE_DRIVER_NOT_INITIALIZED = CUFILEOP_BASE_ERR + 1,
	CU_FILE_DRIVER_INVALID_PROPS = CUFILEOP_BASE_ERR + 2,
	CU_FILE_DRIVER_UNSUPPORTED_LIMIT = CUFILEOP_BASE_ERR + 3,
	CU_FILE_DRIVER_VERSION_MISMATCH = CUFILEOP_BASE_ERR + 4,
	CU_FILE_DRIVER_VERSION_READ_ERROR = CUFILEOP_BASE_ERR + 5,
	CU_FILE_DRIVER_CLOSING = CUFILEOP_BASE_ERR + 6,
	CU_FILE_PLATFORM_NOT_SUPPORTED = CUFILEOP_BASE_ERR + 7,
	CU_FILE_IO_NOT_SUPPORTED = CUFILEOP_BASE_ERR + 8,
	CU_FILE_DEVICE_NOT_SUPPORTED = CUFILEOP_BASE_ERR + 9,
	CU_FILE_NVFS_DRIVER_ERROR = CUFILEOP_BASE_ERR + 10,
	CU_FILE_CUDA_DRIVER_ERROR = CUFILEOP_BASE_ERR + 11,
	CU_FILE_CUDA_POINTER_INVALID = CUFILEOP_BASE_ERR + 12,
	CU_FILE_CUDA_MEMORY_TYPE_INVALID = CUFILEOP_BASE_ERR + 13,
	CU_FILE_CUDA_POINTER_RANGE_ERROR = CUFILEOP_BASE_ERR + 14,
	CU_FILE_CUDA_CONTEXT_MISMATCH = CUFILEOP_BASE_ERR + 15,
	CU_FILE_INVALID_MAPPING_SIZE = CUFILEOP_BASE_ERR + 16,
	CU_FILE_INVALID_MAPPING_RANGE = CUFILEOP_BASE_ERR + 17,
	CU_FILE_INVALID_FILE_TYPE = CUFILEOP_BASE_ERR + 18,
	CU_FILE_INVALID_FILE_OPEN_FLAG = CUFILEOP_BASE_ERR + 19,
	CU_FILE_DIO_NOT_SET = CUFILEOP_BASE_ERR + 20,
	CU_FILE_INVALID_VALUE = CUFILEOP_BASE_ERR + 22,
	CU_FILE_MEMORY_ALREADY_REGISTERED = CUFILEOP_BASE_ERR + 23,
	CU_FILE_MEMORY_NOT_REGISTERED = CUFILEOP_BASE_ERR + 24,
	CU_FILE_PERMISSION_DENIED = CUFILEOP_BASE_ERR + 25,
	CU_FILE_DRIVER_ALREADY_OPEN = CUFILEOP_BASE_ERR + 26,
	CU_FILE_HANDLE_NOT_REGISTERED = CUFILEOP_BASE_ERR + 27,
	CU_FILE_HANDLE_ALREADY_REGISTERED = CUFILEOP_BASE_ERR + 28,
	CU_FILE_DEVICE_NOT_FOUND = CUFILEOP_BASE_ERR + 29,
	CU_FILE_INTERNAL_ERROR = CUFILEOP_BASE_ERR + 30,
	CU_FILE_GETNEWFD_FAILED = CUFILEOP_BASE_ERR + 31,
	CU_FILE_NVFS_SETUP_ERROR = CUFILEOP_BASE_ERR + 33,
	CU_FILE_IO_DISABLED = CUFILEOP_BASE_ERR + 34,
	CU_FILE_BATCH_SUBMIT_FAILED = CUFILEOP_BASE_ERR + 35,
	CU_FILE_GPU_MEMORY_PINNING_FAILED = CUFILEOP_BASE_ERR + 36,
	CU_FILE_BATCH_FULL = CUFILEOP_BASE_ERR + 37,
	CU_FILE_ASYNC_NOT_SUPPORTED = CUFILEOP_BASE_ERR + 38,
	CU_FILE_IO_MAX_ERROR = CUFILEOP_BASE_ERR + 39
} CUfileOpError;

typedef struct CUfileError {
	CUfileOpError err;
	CUresult cu_err;	/* with CU_FILE_CUDA_DRIVER_ERROR: what CUDA said */
} CUfileError_t;

#define IS_CUFILE_ERR(err) (abs((err)) > CUFILEOP_BASE_ERR)
#define CUFILE_ERRSTR(err) cufileop_status_error((CUfileOpError)abs((err)))
#define IS_CUDA_ERR(status) ((status).err == CU_FILE_CUDA_DRIVER_ERROR)
#define CU_FILE_CUDA_ERR(status) ((status).cu_err)

/* What an error means; never NULL. */
static inline const char *cufileop_status_error(CUfileOpError status)
{
	switch (status) {
	case CU_FILE_SUCCESS: return "success";
	case CU_FILE_DRIVER_NOT_INITIALIZED: return "the driver is not open";
	case CU_FILE_DRIVER_INVALID_PROPS: return "the property is not valid";
	case CU_FILE_DRIVER_UNSUPPORTED_LIMIT: return "the limit is out of range";
	case CU_FILE_DRIVER_VERSION_MISMATCH: return "the driver has another version";
	case CU_FILE_DRIVER_VERSION_READ_ERROR: return "the driver's version is unknown";
	case CU_FILE_DRIVER_CLOSING: return "the driver is being closed";
	case CU_FILE_PLATFORM_NOT_SUPPORTED: return "the platform does not support this";
	case CU_FILE_IO_NOT_SUPPORTED: return "the file does not support this I/O";
	case CU_FILE_DEVICE_NOT_SUPPORTED: return "the GPU does not support this";
	case CU_FILE_NVFS_DRIVER_ERROR: return "the kernel's driver failed";
	case CU_FILE_CUDA_DRIVER_ERROR: return "CUDA failed";
	case CU_FILE_CUDA_POINTER_INVALID: return "the device pointer is not valid";
	case CU_FILE_CUDA_MEMORY_TYPE_INVALID: return "the memory has a type that is not supported";
	case CU_FILE_CUDA_POINTER_RANGE_ERROR: return "the range exceeds the allocation";
	case CU_FILE_CUDA_CONTEXT_MISMATCH: return "the memory is of another CUDA context";
	case CU_FILE_INVALID_MAPPING_SIZE: return "the size exceeds what can be pinned";
	case CU_FILE_INVALID_MAPPING_RANGE: return "the range exceeds the registered memory";
	case CU_FILE_INVALID_FILE_TYPE: return "the file has a type that is not supported";
	case CU_FILE_INVALID_FILE_OPEN_FLAG: return "the file was opened without the needed access";
	case CU_FILE_DIO_NOT_SET: return "the file was opened without O_DIRECT";
	case CU_FILE_INVALID_VALUE: return "an argument is not valid";
	case CU_FILE_MEMORY_ALREADY_REGISTERED: return "the memory is registered already";
	case CU_FILE_MEMORY_NOT_REGISTERED: return "the memory is not registered";
	case CU_FILE_PERMISSION_DENIED: return "access is denied";
	case CU_FILE_DRIVER_ALREADY_OPEN: return "the driver is open already";
	case CU_FILE_HANDLE_NOT_REGISTERED: return "the file is not registered";
	case CU_FILE_HANDLE_ALREADY_REGISTERED: return "the file is registered already";
	case CU_FILE_DEVICE_NOT_FOUND: return "the GPU does not exist";
	case CU_FILE_INTERNAL_ERROR: return "an internal error";
	case CU_FILE_GETNEWFD_FAILED: return "no new file descriptor";
	case CU_FILE_NVFS_SETUP_ERROR: return "the kernel's driver cannot be set up";
	case CU_FILE_IO_DISABLED: return "this I/O is switched off for the file";
	case CU_FILE_BATCH_SUBMIT_FAILED: return "the batch cannot be submitted";
	case CU_FILE_GPU_MEMORY_PINNING_FAILED: return "the GPU's memory cannot be pinned";
	case CU_FILE_BATCH_FULL: return "the batch is full";
	case CU_FILE_ASYNC_NOT_SUPPORTED: return "I/O on streams is not supported";
	case CU_FILE_IO_MAX_ERROR: break;
	}
	return "an unknown error";
}

/* Bits of nvfs.dstatusflags, nvfs.dcontrolflags and fflags below: numbers of bits. */
typedef enum CUfileDriverStatusFlags {
	CU_FILE_LUSTRE_SUPPORTED = 0,
	CU_FILE_WEKAFS_SUPPORTED = 1,
	CU_FILE_NFS_SUPPORTED = 2,
	CU_FILE_GPFS_SUPPORTED = 3,
	CU_FILE_NVME_SUPPORTED = 4,
	CU_FILE_NVMEOF_SUPPORTED = 5,	/* weft_rdma is loaded: sealed files and volumes have a direct route */
	CU_FILE_SCSI_SUPPORTED = 6,
	CU_FILE_SCALEFLUX_CSD_SUPPORTED = 7,
	CU_FILE_NVMESH_SUPPORTED = 8,
	CU_FILE_BEEGFS_SUPPORTED = 9,
	CU_FILE_NVME_P2P_SUPPORTED = 11,
	CU_FILE_SCATEFS_SUPPORTED = 12
} CUfileDriverStatusFlags_t;

typedef enum CUfileDriverControlFlags {
	CU_FILE_USE_POLL_MODE = 0,
	CU_FILE_ALLOW_COMPAT_MODE = 1	/* I/O without a direct route is staged */
} CUfileDriverControlFlags_t;

typedef enum CUfileFeatureFlags {
	CU_FILE_DYN_ROUTING_SUPPORTED = 0,
	CU_FILE_BATCH_IO_SUPPORTED = 1,
	CU_FILE_STREAMS_SUPPORTED = 2,
	CU_FILE_PARALLEL_IO_SUPPORTED = 3
} CUfileFeatureFlags_t;

typedef struct CUfileDrvProps {
	struct {
		unsigned int major_version;	/* of the kernel module weft; 0.0: it is not loaded */
		unsigned int minor_version;
		size_t poll_thresh_size;	/* KiB */
		size_t max_direct_io_size;	/* KiB */
		unsigned int dstatusflags;
		unsigned int dcontrolflags;
	} nvfs;
	unsigned int fflags;
	unsigned int max_device_cache_size;		/* KiB */
	unsigned int per_buffer_cache_size;		/* KiB */
	unsigned int max_device_pinned_mem_size;	/* KiB */
	unsigned int max_batch_io_size;			/* entries */
	unsigned int max_batch_io_timeout_msecs;
} CUfileDrvProps_t;

typedef struct sockaddr sockaddr_t;

typedef struct cufileRDMAInfo {
	int version;
	int desc_len;
	const char *desc_str;
} cufileRDMAInfo_t;

#define CU_FILE_RDMA_REGISTER 1
#define CU_FILE_RDMA_RELAXED_ORDERING (1 << 1)

/* Of filesystems in userspace, which libweft-cufile does not support. */
typedef struct CUfileFSOps {
	const char *(*fs_type)(void *handle);
	int (*getRDMADeviceList)(void *handle, sockaddr_t **hostaddrs);
	int (*getRDMADevicePriority)(void *handle, char *, size_t, loff_t, sockaddr_t *hostaddr);
	ssize_t (*read)(void *handle, char *, size_t, loff_t, cufileRDMAInfo_t *);
	ssize_t (*write)(void *handle, const char *, size_t, loff_t, cufileRDMAInfo_t *);
} CUfileFSOps_t;

enum CUfileFileHandleType {
	CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1,
	CU_FILE_HANDLE_TYPE_OPAQUE_WIN32 = 2,
	CU_FILE_HANDLE_TYPE_USERSPACE_FS = 3
};

typedef struct CUfileDescr_t {
	enum CUfileFileHandleType type;
	union {
		int fd;
		void *handle;
	} handle;
	const CUfileFSOps_t *fs_ops;
} CUfileDescr_t;

typedef void *CUfileHandle_t;

/*
 * A file or block device for I/O. The descriptor may be closed afterwards. Its access mode says what is allowed. Errors:
 * INVALID_FILE_TYPE, PERMISSION_DENIED, INVALID_VALUE, PLATFORM_NOT_SUPPORTED (io_uring is not allowed here).
 */
CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *descr);
/* No I/O on it may be in flight. */
void cuFileHandleDeregister(CUfileHandle_t fh);

/* I/O on memory that is not registered works, too; it is registered for each I/O. The flags are ignored. */
CUfileError_t cuFileBufRegister(const void *bufPtr_base, size_t length, int flags);
CUfileError_t cuFileBufDeregister(const void *bufPtr_base);

/*
 * Return the number of bytes, which is less than the size only at the end; -1 with errno; or a negative CUfileOpError. Any
 * bytes may be read or written. What is not in whole blocks is staged.
 */
ssize_t cuFileRead(CUfileHandle_t fh, void *bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);
ssize_t cuFileWrite(CUfileHandle_t fh, const void *bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);

/* Counted: the last cuFileDriverClose() closes it. I/O works without it. */
CUfileError_t cuFileDriverOpen(void);
CUfileError_t cuFileDriverClose(void);
#define cuFileDriverClose cuFileDriverClose_v2
CUfileError_t cuFileDriverClose_v2(void);
long cuFileUseCount(void);
CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t *props);
/* Limits that libweft does not need: they are checked, kept and shown by cuFileDriverGetProperties(). */
CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size);
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size);
CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size);
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size);
/* 1000 times the major number and 10 times the minor one of the interface. */
CUfileError_t cuFileGetVersion(int *version);

typedef enum CUfileOpcode { CUFILE_READ = 0, CUFILE_WRITE = 1 } CUfileOpcode_t;

typedef enum CUFILEStatus_enum {
	CUFILE_WAITING = 0x01,
	CUFILE_PENDING = 0x02,
	CUFILE_INVALID = 0x04,
	CUFILE_CANCELED = 0x08,
	CUFILE_COMPLETE = 0x10,
	CUFILE_TIMEOUT = 0x20,
	CUFILE_FAILED = 0x40
} CUfileStatus_t;

typedef enum cufileBatchMode { CUFILE_BATCH = 1 } CUfileBatchMode_t;

typedef struct CUfileIOParams {
	CUfileBatchMode_t mode;
	union {
		struct {
			void *devPtr_base;
			off_t file_offset;
			off_t devPtr_offset;
			size_t size;
		} batch;
	} u;
	CUfileHandle_t fh;
	CUfileOpcode_t opcode;
	void *cookie;
} CUfileIOParams_t;

typedef struct CUfileIOEvents {
	void *cookie;
	CUfileStatus_t status;
	size_t ret;	/* bytes; with CUFILE_FAILED a negative errno or CUfileOpError */
} CUfileIOEvents_t;

typedef void *CUfileBatchHandle_t;

/* For at most so many I/Os at a time. */
CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t *batch_idp, unsigned nr);
/* All are checked before the first one begins. Writes that are not in whole blocks are done when it returns. */
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr, CUfileIOParams_t *iocbp,
				  unsigned int flags);
/*
 * Stores at most *nr events, and their number in *nr, as soon as there are min_nr, or at the timeout (NULL: none). Each I/O
 * is reported once.
 */
CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned *nr,
				     CUfileIOEvents_t *iocbp, struct timespec *timeout);
CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp);
/* Waits for the I/O in flight. */
void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp);

#define CU_FILE_STREAM_FIXED_BUF_OFFSET 1
#define CU_FILE_STREAM_FIXED_FILE_OFFSET 2
#define CU_FILE_STREAM_FIXED_FILE_SIZE 4
#define CU_FILE_STREAM_PAGE_ALIGNED_INPUTS 8

/*
 * I/O in the order of a CUDA stream. Sizes and offsets are read, and the result is stored, when the stream gets there.
 * Memory without a direct route is staged: the call then returns when the I/O is done.
 */
CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
			      off_t *bufPtr_offset_p, ssize_t *bytes_read_p, CUstream stream);
CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
			       off_t *bufPtr_offset_p, ssize_t *bytes_written_p, CUstream stream);
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags);
CUfileError_t cuFileStreamDeregister(CUstream stream);

/* weft's own, for programs that want to know: bytes that this process has moved, by route. */
struct weft_cufile_bytes {
	uint64_t direct;	/* between the device and the memory */
	uint64_t staged;	/* copied through pages of this process, for a reason */
	uint64_t cached;	/* through the page cache, because the file takes no O_DIRECT */
};

void weft_cufile_count(struct weft_cufile_bytes *bytes);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_CUFILE_H */
