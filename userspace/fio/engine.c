// SPDX-License-Identifier: GPL-2.0-only
/*
 * libweft-fio.so: an fio engine that uses libweft, to and from host memory,
 * dma-bufs and GPU memory.
 *
 * A job is one thread, with one engine of libweft and one memory for the I/O in
 * flight. If the CPU can access the memory, it is fio's buffer. GPU memory is
 * separate from fio's buffer; data is copied between the two only with verify,
 * when the contents matter.
 *
 * The layout of fio's structures depends on its version and configuration, so
 * the engine is built for one fio (see build-engine), and refuses any other.
 */
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "fio.h"
#include "optgroup.h"
#include "options.h"
#include "verify.h"

#include <weft/weft.h>

enum memory_kind { MEMORY_HOST, MEMORY_UDMABUF, MEMORY_CUDA };

struct engine_options {
	struct thread_data *td;
	unsigned int memory;
	unsigned int gpu;
	unsigned int mr;
	char *allow;
	char *volume;
};

/* State of a job. */
struct engine_data {
	struct weft_engine *engine;
	struct weft_memory *memory;
	struct weft_completion *completions;
	struct io_u **queued;	/* since the last commit */
	unsigned int queued_count;
	unsigned int policy;	/* flags for registrations */
	bool copies;	/* copy between fio's buffer and the memory for each I/O */
	bool filled;	/* the memory holds what fio's buffer holds */
	int told;	/* the route (enum weft_route) that was reported last; -1: none */
};

/* State of an open file of a job. */
struct engine_file {
	struct weft_target *volume;
	struct weft_target *file;	/* on that volume, NULL: the volume itself */
	struct weft_registration *registration;
};

static const struct weft_target *target_of(const struct engine_file *file)
{
	return file->file ? file->file : file->volume;
}

static struct fio_option engine_option_list[] = {
	{
		.name		= "weft_memory",
		.lname		= "weft memory",
		.type		= FIO_OPT_STR,
		.off1		= offsetof(struct engine_options, memory),
		.help		= "Memory that I/O goes to and comes from",
		.def		= "host",
		.posval		= {
			{ .ival = "host", .oval = MEMORY_HOST, .help = "Pages of the process" },
			{ .ival = "udmabuf", .oval = MEMORY_UDMABUF, .help = "Host memory as a dma-buf" },
			{ .ival = "cuda", .oval = MEMORY_CUDA, .help = "Memory of a GPU" },
		},
		.category	= FIO_OPT_C_ENGINE,
		.group		= FIO_OPT_G_INVALID,
	},
	{
		.name		= "weft_gpu",
		.lname		= "weft GPU",
		.type		= FIO_OPT_INT,
		.off1		= offsetof(struct engine_options, gpu),
		.help		= "GPU of weft_memory=cuda, by its number in CUDA",
		.def		= "0",
		.category	= FIO_OPT_C_ENGINE,
		.group		= FIO_OPT_G_INVALID,
	},
	{
		.name		= "weft_allow",
		.lname		= "weft routes",
		.type		= FIO_OPT_STR_STORE,
		.off1		= offsetof(struct engine_options, allow),
		.help		= "Routes to allow besides the direct one, separated by commas: vmap, bounce, staged",
		.category	= FIO_OPT_C_ENGINE,
		.group		= FIO_OPT_G_INVALID,
	},
	{
		.name		= "weft_mr",
		.lname		= "weft registration",
		.type		= FIO_OPT_STR,
		.off1		= offsetof(struct engine_options, mr),
		.help		= "How long the memory is registered with the RDMA devices",
		.def		= "per-io",
		.posval		= {
			{ .ival = "per-io", .oval = 0, .help = "For each I/O" },
			{ .ival = "persistent", .oval = WEFT_PERSISTENT,
			  .help = "Once: every target is trusted with it" },
		},
		.category	= FIO_OPT_C_ENGINE,
		.group		= FIO_OPT_G_INVALID,
	},
	{
		.name		= "weft_volume",
		.lname		= "weft volume",
		.type		= FIO_OPT_STR_STORE,
		.off1		= offsetof(struct engine_options, volume),
		.help		= "Volume of the job's files; sealed files are read without their filesystem",
		.category	= FIO_OPT_C_ENGINE,
		.group		= FIO_OPT_G_INVALID,
	},
	{
		.name		= NULL,
	},
};

static int give_up(struct thread_data *td, int code, const char *what, const char *why)
{
	log_err("weft: %s: %s\n", what, why);
	td_verror(td, code, "weft");
	return 1;
}

/* Parse a list such as "vmap,staged" to a policy; -1 if it is invalid. */
static int read_allow(const char *allow)
{
	static const struct {
		const char *name;
		int policy;
	} routes[] = {
		{ "vmap", WEFT_ALLOW_VMAP }, { "bounce", WEFT_ALLOW_BOUNCE }, { "staged", WEFT_ALLOW_STAGED },
	};
	int policy = 0;
	unsigned int i;

	while (allow && *allow) {
		size_t length = strcspn(allow, ",:");

		for (i = 0; i < FIO_ARRAY_SIZE(routes); i++)
			if (strlen(routes[i].name) == length && !strncmp(routes[i].name, allow, length))
				break;
		if (i == FIO_ARRAY_SIZE(routes))
			return -1;
		policy |= routes[i].policy;
		allow += length + (allow[length] != '\0');
	}
	return policy;
}

/* The first option of a job that this engine does not support, or NULL. */
static const char *not_there(struct thread_data *td)
{
	const struct engine_options *options = td->eo;

	if (td->o.sync_io)
		return "sync= is not supported; use fsync= or end_fsync=";
	if (td_trim(td))
		return "trim is not supported";
	if (td->o.pre_read)
		return "pre_read= is not supported";
	if (td_max_bs(td) > INT32_MAX)
		return "bs= must be below 2 GiB";
	if (options->volume && td_write(td))
		return "files on a volume (weft_volume=) can only be read";
	return NULL;
}

static void engine_cleanup(struct thread_data *td)
{
	struct engine_data *data = td->io_ops_data;

	if (!data)
		return;
	if (data->engine)
		weft_engine_destroy(data->engine);
	free(data->queued);
	free(data->completions);
	free(data);
	td->io_ops_data = NULL;
}

static int engine_init(struct thread_data *td)
{
	const struct engine_options *options = td->eo;
	int policy = read_allow(options->allow);
	const char *wrong = policy < 0 ? "weft_allow takes some of vmap, bounce and staged, separated by commas" :
					 not_there(td);
	struct weft_engine_options engine = { .size = sizeof(engine), .entries = td->o.iodepth };
	struct engine_data *data;
	struct weft_error error;

	if (wrong)
		return give_up(td, EINVAL, td->o.name, wrong);
	data = calloc(1, sizeof(*data));
	if (!data)
		return give_up(td, ENOMEM, td->o.name, "out of memory");
	td->io_ops_data = data;
	data->policy = policy | options->mr;
	data->told = -1;
	data->completions = calloc(td->o.iodepth, sizeof(*data->completions));
	data->queued = calloc(td->o.iodepth, sizeof(*data->queued));
	if (!data->completions || !data->queued) {
		engine_cleanup(td);
		return give_up(td, ENOMEM, td->o.name, "out of memory");
	}
	data->engine = weft_engine_create(&engine, &error);
	if (!data->engine) {
		engine_cleanup(td);
		return give_up(td, error.code, td->o.name, error.text);
	}
	return 0;
}

static int engine_iomem_alloc(struct thread_data *td, size_t bytes)
{
	struct engine_options *options = td->eo;
	struct engine_data *data = td->io_ops_data;
	struct weft_error error;

	switch (options->memory) {
	case MEMORY_UDMABUF:
		data->memory = weft_memory_allocate_udmabuf(bytes, &error);
		break;
	case MEMORY_CUDA:
		data->memory = weft_memory_allocate_cuda(options->gpu, bytes, &error);
		break;
	default:
		data->memory = weft_memory_allocate(bytes, &error);
		break;
	}
	if (!data->memory)
		return give_up(td, error.code, td->o.name, error.text);
	td->orig_buffer = weft_memory_data(data->memory);
	if (td->orig_buffer)
		return 0;
	/* A buffer for fio with the alignment of GPU memory, so that offsets in both are the same. */
	if (posix_memalign((void **)&td->orig_buffer, page_size, bytes)) {
		td->orig_buffer = NULL;
		weft_memory_free(data->memory);
		data->memory = NULL;
		return give_up(td, ENOMEM, td->o.name, "out of memory");
	}
	data->copies = td->o.verify != VERIFY_NONE;
	return 0;
}

static void engine_iomem_free(struct thread_data *td)
{
	struct engine_data *data = td->io_ops_data;

	/* fio also calls this after the allocation failed. */
	if (!data || !data->memory)
		return;
	if (!weft_memory_data(data->memory))
		free(td->orig_buffer);
	td->orig_buffer = NULL;
	/* Destroy the engine first: it may stage through this GPU. */
	weft_engine_destroy(data->engine);
	data->engine = NULL;
	weft_memory_free(data->memory);
	data->memory = NULL;
}

static void forget(struct fio_file *f)
{
	struct engine_file *file = FILE_ENG_DATA(f);

	weft_unregister(file->registration);
	weft_close(file->file);
	weft_close(file->volume);
	free(file);
	FILE_SET_ENG_DATA(f, NULL);
}

static const char *const memory_names[] = { "host memory", "a udmabuf", "GPU memory" };

/* Report the route and its reason, once for a group of equal jobs, and again when the route differs. */
static void tell_route(struct thread_data *td, struct fio_file *f)
{
	struct engine_options *options = td->eo;
	struct engine_data *data = td->io_ops_data;
	struct engine_file *file = FILE_ENG_DATA(f);
	enum weft_route route = weft_registration_route(file->registration);
	const char *reason = weft_registration_reason(file->registration);

	if (td->subjob_number || data->told == (int)route)
		return;
	data->told = route;
	log_err("weft: %s: %s, %s%s%s\n", f->file_name, memory_names[options->memory], weft_route_name(route),
		*reason ? ": " : "", reason);
}

/* A name without a slash is a file, as for fio, and not a volume of that name. */
static bool name_of(const struct fio_file *f, char name[PATH_MAX])
{
	return snprintf(name, PATH_MAX, "%s%s", strchr(f->file_name, '/') ? "" : "./", f->file_name) < PATH_MAX;
}

/*
 * Extend a file to the size that the job needs: libweft does not read beyond the end that the file had when it was opened.
 * The lock serializes jobs that share the file, so that none truncates it below another's size.
 */
static int grow(struct thread_data *td, const struct fio_file *f, const char *name)
{
	uint64_t size = f->file_offset + f->io_size;
	struct stat status;
	int fd, ret, error;

	if (td->o.fill_device || f->io_size == -1ULL)
		return 0;
	fd = open(name, O_WRONLY | O_CLOEXEC | (td->o.create_on_open ? O_CREAT : 0), 0644);
	if (fd < 0)
		return -1;
	ret = flock(fd, LOCK_EX);
	if (!ret)
		ret = fstat(fd, &status);
	if (!ret && (uint64_t)status.st_size < size)
		ret = ftruncate(fd, size);
	error = errno;
	close(fd);
	errno = error;
	return ret;
}

static int engine_open_file(struct thread_data *td, struct fio_file *f)
{
	struct engine_options *options = td->eo;
	struct engine_data *data = td->io_ops_data;
	/* Jobs share a device; fio itself refuses to write to a mounted one. */
	unsigned int access = td_write(td) ? WEFT_READ_WRITE | WEFT_SHARED : WEFT_READ;
	char name[PATH_MAX];
	struct weft_geometry geometry;
	struct weft_error error = { 0 };
	struct engine_file *file;

	/* fio continues for a while after the allocation failed, and allocates nothing for jobs without data. */
	if (!data->memory)
		return td->error ? 1 : give_up(td, EOPNOTSUPP, td->o.name, "libweft supports only reads and writes");
	if (!name_of(f, name))
		return give_up(td, ENAMETOOLONG, f->file_name, "the name is too long");
	if (td_write(td) && f->filetype == FIO_TYPE_FILE && grow(td, f, name))
		return give_up(td, errno, f->file_name, strerror(errno));
	file = calloc(1, sizeof(*file));
	if (!file)
		return give_up(td, ENOMEM, f->file_name, "out of memory");
	FILE_SET_ENG_DATA(f, file);
	file->volume = weft_volume_open(options->volume ? options->volume : name, access, &error);
	if (!file->volume)
		goto refuse;
	if (options->volume) {
		file->file = weft_file_open(file->volume, name, !(data->policy & WEFT_ALLOW_STAGED), &error);
		if (!file->file)
			goto refuse;
	}
	weft_target_geometry(target_of(file), &geometry);
	if (td_min_bs(td) % geometry.block_size || td_max_bs(td) % geometry.block_size) {
		error.code = EINVAL;
		snprintf(error.text, sizeof(error.text), "bs= must be a multiple of %u bytes there",
			 geometry.block_size);
		goto refuse;
	}
	file->registration = weft_register(target_of(file), data->memory, data->policy, &error);
	if (!file->registration)
		goto refuse;
	/* Without verify, only avoid zeros, which a target may treat differently. */
	if (!data->filled && td->orig_buffer != weft_memory_data(data->memory) &&
	    weft_memory_copy_in(data->memory, 0, td->orig_buffer, weft_memory_size(data->memory))) {
		error.code = EIO;
		snprintf(error.text, sizeof(error.text), "the copy to GPU memory fails");
		goto refuse;
	}
	data->filled = true;
	/* Last: a target is detached before it is closed, which forget() does not. */
	if (!file->file)
		weft_engine_attach(data->engine, file->volume);
	tell_route(td, f);
	return 0;

refuse:
	give_up(td, error.code, f->file_name, error.text);
	forget(f);
	return 1;
}

static int engine_close_file(struct thread_data *td, struct fio_file *f)
{
	struct engine_file *file = FILE_ENG_DATA(f);
	struct engine_data *data = td->io_ops_data;

	/* After an error fio may close a file twice. */
	if (!file)
		return 0;
	if (!file->file && data->engine)
		weft_engine_detach(data->engine, file->volume);
	forget(f);
	return 0;
}

/* Called before the job exists. fio's own function would call open_file(), which needs the job's memory. */
static int engine_get_file_size(struct thread_data *td, struct fio_file *f)
{
	struct weft_geometry geometry;
	struct weft_target *volume;
	struct weft_error error;
	char name[PATH_MAX];

	if (fio_file_size_known(f))
		return 0;
	if (f->filetype == FIO_TYPE_FILE)
		return generic_get_file_size(td, f);
	if (!name_of(f, name))
		return give_up(td, ENAMETOOLONG, f->file_name, "the name is too long");
	volume = weft_volume_open(name, WEFT_READ, &error);
	if (!volume)
		return give_up(td, error.code, f->file_name, error.text);
	weft_target_geometry(volume, &geometry);
	weft_close(volume);
	f->real_file_size = geometry.size;
	fio_file_set_size_known(f);
	return 0;
}

/* Nothing to do: I/O bypasses the cache, or the filesystem does not support that. */
static int engine_invalidate(struct thread_data *td, struct fio_file *f)
{
	return 0;
}

static enum fio_q_status engine_queue(struct thread_data *td, struct io_u *io_u)
{
	struct engine_file *file = FILE_ENG_DATA(io_u->file);
	struct engine_data *data = td->io_ops_data;
	struct weft_io io = {
		.size = sizeof(io),
		.offset = io_u->offset,
		.memory_offset = (char *)io_u->xfer_buf - td->orig_buffer,
		.length = io_u->xfer_buflen,
		.token = (uintptr_t)io_u,
	};
	int ret;

	fio_ro_check(td, io_u);
	switch (io_u->ddir) {
	case DDIR_READ:
		ret = weft_read(data->engine, target_of(file), file->registration, &io, NULL);
		break;
	case DDIR_WRITE:
		if (data->copies && weft_memory_copy_in(data->memory, io.memory_offset, io_u->xfer_buf, io.length)) {
			io_u->error = EIO;
			return FIO_Q_COMPLETED;
		}
		ret = weft_write(data->engine, file->volume, file->registration, &io, NULL);
		break;
	case DDIR_SYNC:
	case DDIR_DATASYNC:
		ret = weft_flush(data->engine, file->volume, io.token);
		break;
	default:
		io_u->error = EOPNOTSUPP;
		return FIO_Q_COMPLETED;
	}
	if (ret)
		return FIO_Q_BUSY;
	data->queued[data->queued_count++] = io_u;
	return FIO_Q_QUEUED;
}

static int engine_commit(struct thread_data *td)
{
	struct engine_data *data = td->io_ops_data;
	struct timespec now;
	unsigned int i;
	int ret;

	if (!data->queued_count)
		return 0;
	ret = weft_submit(data->engine);
	/* These are temporary: the next submission or wait submits the rest. */
	if (ret == -EAGAIN || ret == -EBUSY || ret == -EINTR || ret == -ENOMEM)
		ret = 0;
	io_u_mark_submit(td, data->queued_count);
	if (fio_fill_issue_time(td)) {
		fio_gettime(&now, NULL);
		for (i = 0; i < data->queued_count; i++) {
			data->queued[i]->issue_time = now;
			io_u_queued(td, data->queued[i]);
		}
		/* fio's I/O log takes the time from here. */
		if (td->o.read_iolog_file)
			td->last_issue = now;
	}
	data->queued_count = 0;
	return ret;
}

static int engine_getevents(struct thread_data *td, unsigned int min, unsigned int max,
			    const struct timespec *timeout)
{
	struct engine_data *data = td->io_ops_data;
	unsigned int count = 0;

	do {
		struct weft_completion *free_ones = data->completions + count;

		count += count < min ? weft_wait(data->engine, free_ones, max - count, -1) :
				       weft_poll(data->engine, free_ones, max - count);
	} while (count < min);
	return count;
}

static struct io_u *engine_event(struct thread_data *td, int number)
{
	struct engine_data *data = td->io_ops_data;
	const struct weft_completion *completion = &data->completions[number];
	struct io_u *io_u = (struct io_u *)(uintptr_t)completion->token;

	io_u->error = 0;
	io_u->resid = 0;
	if (completion->result < 0)
		io_u->error = -completion->result;
	else if (!ddir_sync(io_u->ddir))
		io_u->resid = io_u->xfer_buflen - completion->result;
	if (data->copies && io_u->ddir == DDIR_READ && completion->result > 0 &&
	    weft_memory_copy_out(data->memory, (char *)io_u->xfer_buf - td->orig_buffer, io_u->xfer_buf,
				 completion->result))
		io_u->error = EIO;
	return io_u;
}

/* Before this version, fio itself sets the submission time when it queues an I/O. */
#if FIO_IOOPS_VERSION >= 31
#define SETS_ISSUE_TIME	FIO_ASYNCIO_SETS_ISSUE_TIME
#else
#define SETS_ISSUE_TIME	0
#endif

static struct ioengine_ops engine = {
	.name			= "weft",
	.version		= FIO_IOOPS_VERSION,
	.flags			= FIO_RAWIO | FIO_MEMALIGN | FIO_NO_OFFLOAD | SETS_ISSUE_TIME,
	.init			= engine_init,
	.cleanup		= engine_cleanup,
	.iomem_alloc		= engine_iomem_alloc,
	.iomem_free		= engine_iomem_free,
	.open_file		= engine_open_file,
	.close_file		= engine_close_file,
	.get_file_size		= engine_get_file_size,
	.invalidate		= engine_invalidate,
	.queue			= engine_queue,
	.commit			= engine_commit,
	.getevents		= engine_getevents,
	.event			= engine_event,
	.option_struct_size	= sizeof(struct engine_options),
	.options		= engine_option_list,
};

/* Are fio's options at the offsets that this engine was compiled with? */
static bool laid_out_alike(void)
{
	static const struct {
		const char *name;
		unsigned int offset;
	} some[] = {
		{ "iodepth", offsetof(struct thread_options, iodepth) },
		{ "nrfiles", offsetof(struct thread_options, nr_files) },
		{ "verify", offsetof(struct thread_options, verify) },
		{ "numjobs", offsetof(struct thread_options, numjobs) },
		{ "log_avg_msec", offsetof(struct thread_options, log_avg_msec) },
		{ "zonesize", offsetof(struct thread_options, zone_size) },
	};
	const struct fio_option *option;
	unsigned int i;

	for (i = 0; i < FIO_ARRAY_SIZE(some); i++) {
		for (option = fio_options; option->name && strcmp(option->name, some[i].name); option++)
			;
		if (!option->name || option->off1 != some[i].offset)
			return false;
	}
	return true;
}

/* fio calls this after it has opened the engine. */
void get_ioengine(struct ioengine_ops **ops)
{
	*ops = NULL;
	if (strcmp(fio_version_string, WEFT_FIO_VERSION))
		log_err("weft: this engine was built for " WEFT_FIO_VERSION
			" and this is another version: %s; build it again\n", fio_version_string);
	else if (!laid_out_alike())
		log_err("weft: this engine was built from sources of " WEFT_FIO_VERSION
			" with another configuration than this fio; build it again\n");
	else
		*ops = &engine;
}
