/* SPDX-License-Identifier: GPL-2.0-only */
/* The cgroups (v2) whose tasks have a class. A kernel without cgroups has none. */
#ifndef WEFT_QOS_CGROUP_H
#define WEFT_QOS_CGROUP_H

#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>
#include <linux/err.h>
#include <linux/sched.h>

#ifdef CONFIG_CGROUPS

/* A cgroup by its path in the caller's cgroup namespace, with a reference; or an ERR_PTR. */
static inline struct cgroup *weft_cgroup_find(const char *path)
{
	return cgroup_get_from_path(path);
}

static inline void weft_cgroup_put(struct cgroup *cgroup)
{
	if (cgroup)
		cgroup_put(cgroup);
}

/* Its path below the root. */
static inline void weft_cgroup_path(struct cgroup *cgroup, char *path, size_t size)
{
	cgroup_path(cgroup, path, size);
}

/*
 * Is the submitting task in @cgroup, or below it? Or @bio's data, if there is a
 * bio: a worker writes the page cache back for others. Under RCU.
 */
static inline bool weft_cgroup_submits(struct cgroup *cgroup, struct bio *bio)
{
	struct cgroup_subsys_state *css = bio ? bio_blkcg_css(bio) : NULL;

	if (css && cgroup_is_descendant(css->cgroup, cgroup))
		return true;
	return !(current->flags & PF_KTHREAD) &&
	       cgroup_is_descendant(task_dfl_cgroup(current), cgroup);
}

#else

static inline struct cgroup *weft_cgroup_find(const char *path)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void weft_cgroup_put(struct cgroup *cgroup)
{
}

static inline void weft_cgroup_path(struct cgroup *cgroup, char *path, size_t size)
{
	path[0] = '\0';
}

static inline bool weft_cgroup_submits(struct cgroup *cgroup, struct bio *bio)
{
	return false;
}

#endif

#endif /* WEFT_QOS_CGROUP_H */
