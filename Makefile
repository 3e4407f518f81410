# SPDX-License-Identifier: GPL-2.0-only
#
# People's entry to weft. Nothing here knows kbuild: that is in Kbuild and kmod/.

VERSION := 0.1.0
KVER    ?= $(shell uname -r)
PREFIX  ?= /usr/local
BUILD   ?= build
DESTDIR ?=
LAB     := tests/lab/lab

# What a module is built from, as it is copied to /usr/src for DKMS.
DKMS_SOURCES := Kbuild LICENSE dkms.conf kmod uapi

.PHONY: help
help: ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 24

.PHONY: modules
modules: ## build the kernel modules for KVER (default: the running kernel)
	$(MAKE) -C /lib/modules/$(KVER)/build M=$(CURDIR) modules

.PHONY: tools
tools: ## build the tools into BUILD
	cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null
	cmake --build $(BUILD) --parallel $(shell nproc)

.PHONY: install-tools
install-tools: tools ## install the tools and fio jobs below PREFIX
	DESTDIR=$(DESTDIR) cmake --install $(BUILD) >/dev/null
	install -d $(DESTDIR)$(PREFIX)/share/weft/fio-jobs
	install -m 644 -t $(DESTDIR)$(PREFIX)/share/weft/fio-jobs fio-jobs/*.fio

.PHONY: dkms-install
dkms-install: ## build and install the modules for KVER by DKMS
	-dkms remove -m weft -v $(VERSION) -k $(KVER) >/dev/null 2>&1
	rm -rf /usr/src/weft-$(VERSION)
	install -d /usr/src/weft-$(VERSION)
	cp -a $(DKMS_SOURCES) /usr/src/weft-$(VERSION)/
	dkms install -m weft -v $(VERSION) -k $(KVER)

.PHONY: demo
demo: ## boot a guest, stripe a volume over RDMA, use it, measure it
	@tests/demo

.PHONY: check
check: ## run the tests
	@tests/check

.PHONY: check-all
check-all: ## run all tests, also the long ones
	@tests/check --all

.PHONY: bench
bench: ## count instructions per I/O against md and dm, into BUILD/bench.json
	@tests/bench/bench --output $(BUILD)/bench.json

.PHONY: clean
clean: ## remove what was built here (not the lab's cache)
	rm -rf $(BUILD)
