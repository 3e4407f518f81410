// SPDX-License-Identifier: GPL-2.0-only
/* Shadows of writes that a target may still execute. */
#include <kunit/test.h>
#include <linux/jiffies.h>

#include "../weft/shadow.h"

static void shadow_make(struct weft_shadow *shadow, sector_t first, sector_t sectors,
			const void *owner)
{
	memset(shadow, 0, sizeof(*shadow));
	RB_CLEAR_NODE(&shadow->node);
	shadow->first = first;
	shadow->last = first + sectors - 1;
	shadow->owner = owner;
}

static void shadow_stops_overlaps(struct kunit *test)
{
	struct weft_shadows shadows;
	struct weft_shadow shadow;
	int mine, other;

	weft_shadows_init(&shadows);
	KUNIT_EXPECT_FALSE(test, weft_shadows_any(&shadows));
	KUNIT_EXPECT_FALSE(test, weft_shadow_stops(&shadows, 0, 8, &other));
	shadow_make(&shadow, 8, 8, &mine);
	weft_shadow_cast(&shadows, &shadow, jiffies);
	KUNIT_EXPECT_TRUE(test, weft_shadows_any(&shadows));
	/* Its neighbours pass, and so does what has no sectors. */
	KUNIT_EXPECT_FALSE(test, weft_shadow_stops(&shadows, 0, 8, &other));
	KUNIT_EXPECT_FALSE(test, weft_shadow_stops(&shadows, 16, 8, &other));
	KUNIT_EXPECT_FALSE(test, weft_shadow_stops(&shadows, 8, 0, &other));
	KUNIT_EXPECT_TRUE(test, weft_shadow_stops(&shadows, 0, 9, &other));
	KUNIT_EXPECT_TRUE(test, weft_shadow_stops(&shadows, 15, 1, &other));
	KUNIT_EXPECT_TRUE(test, weft_shadow_stops(&shadows, 0, 100, &other));
	/* The write itself passes until it has ended. */
	KUNIT_EXPECT_FALSE(test, weft_shadow_stops(&shadows, 8, 8, &mine));
	KUNIT_EXPECT_PTR_EQ(test, weft_shadow_of(&shadows, 8, 8, &mine), &shadow);
	KUNIT_EXPECT_NULL(test, weft_shadow_of(&shadows, 8, 8, &other));
	shadow.owner = NULL;
	KUNIT_EXPECT_TRUE(test, weft_shadow_stops(&shadows, 8, 8, &mine));
}

/* Two writes to the same bytes were in flight: each one waits for the other. */
static void shadow_stops_both(struct kunit *test)
{
	struct weft_shadows shadows;
	struct weft_shadow a, b;
	int first, second;

	weft_shadows_init(&shadows);
	shadow_make(&a, 0, 16, &first);
	shadow_make(&b, 8, 16, &second);
	weft_shadow_cast(&shadows, &a, jiffies);
	weft_shadow_cast(&shadows, &b, jiffies);
	KUNIT_EXPECT_TRUE(test, weft_shadow_stops(&shadows, 0, 16, &first));
	KUNIT_EXPECT_TRUE(test, weft_shadow_stops(&shadows, 8, 16, &second));
	KUNIT_EXPECT_PTR_EQ(test, weft_shadow_of(&shadows, 8, 16, &second), &b);
}

static void shadow_stops_all(struct kunit *test)
{
	struct weft_shadows shadows;
	int other;

	weft_shadows_init(&shadows);
	weft_shadow_cast(&shadows, &shadows.whole, jiffies);
	KUNIT_EXPECT_TRUE(test, weft_shadow_stops(&shadows, 0, 1, &other));
	KUNIT_EXPECT_TRUE(test, weft_shadow_stops(&shadows, ~0ULL >> 1, 8, &other));
	KUNIT_EXPECT_FALSE(test, weft_shadow_stops(&shadows, 0, 0, &other));
}

static void shadow_ends(struct kunit *test)
{
	unsigned long now = ULONG_MAX - 14;	/* some shadows end behind the wrap */
	struct weft_shadow shadow[3], *over;
	struct weft_shadows shadows;
	LIST_HEAD(list);
	int owner;

	weft_shadows_init(&shadows);
	shadow_make(&shadow[0], 0, 8, &owner);
	shadow_make(&shadow[1], 8, 8, &owner);
	shadow_make(&shadow[2], 4, 8, NULL);
	weft_shadow_cast(&shadows, &shadow[0], now + 30);
	weft_shadow_cast(&shadows, &shadow[1], now + 10);
	weft_shadow_cast(&shadows, &shadow[2], now + 20);
	/* A second loss makes it longer; one that ends earlier changes nothing. */
	weft_shadow_cast(&shadows, &shadow[0], now + 40);
	weft_shadow_cast(&shadows, &shadow[0], now + 5);
	KUNIT_EXPECT_EQ(test, shadows.end, now + 10);
	weft_shadows_take_over(&shadows, now + 9, &list);
	KUNIT_EXPECT_TRUE(test, list_empty(&list));
	weft_shadows_take_over(&shadows, now + 20, &list);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&list), 2);
	list_for_each_entry(over, &list, over)
		KUNIT_EXPECT_TRUE(test, RB_EMPTY_NODE(&over->node));
	KUNIT_EXPECT_EQ(test, shadows.end, now + 40);
	KUNIT_EXPECT_FALSE(test, weft_shadow_stops(&shadows, 8, 8, NULL));
	KUNIT_EXPECT_TRUE(test, weft_shadow_stops(&shadows, 7, 1, NULL));
	INIT_LIST_HEAD(&list);
	weft_shadows_take_over(&shadows, now + 40, &list);
	KUNIT_EXPECT_FALSE(test, weft_shadows_any(&shadows));
}

static struct kunit_case shadow_cases[] = {
	KUNIT_CASE(shadow_stops_overlaps),
	KUNIT_CASE(shadow_stops_both),
	KUNIT_CASE(shadow_stops_all),
	KUNIT_CASE(shadow_ends),
	{}
};

static struct kunit_suite shadow_suite = {
	.name		= "weft-shadow",
	.test_cases	= shadow_cases,
};

kunit_test_suite(shadow_suite);
