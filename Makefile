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
# What packages are built from.
DEB_SOURCES  := $(DKMS_SOURCES) CMakeLists.txt Makefile cpp-tools fio-jobs packaging tests userspace

# What kbuild leaves beside the sources.
remove-built = find $(1) \( -name '*.o' -o -name '*.ko' -o -name '.*.cmd' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.d' \) -delete

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
install-tools: tools ## install tools, man pages, fio jobs, udev rules and units below PREFIX
	DESTDIR=$(DESTDIR) cmake --install $(BUILD) >/dev/null

.PHONY: dkms-install
dkms-install: ## build and install the modules for KVER by DKMS
	-dkms remove -m weft -v $(VERSION) -k $(KVER) >/dev/null 2>&1
	rm -rf /usr/src/weft-$(VERSION)
	install -d /usr/src/weft-$(VERSION)
	# Root's, whoever's the clone is: kernel upgrades run it as root.
	cp -R --preserve=mode,timestamps $(DKMS_SOURCES) /usr/src/weft-$(VERSION)/
	chmod -R go-w /usr/src/weft-$(VERSION)
	$(call remove-built,/usr/src/weft-$(VERSION))
	dkms install -m weft -v $(VERSION) -k $(KVER)

.PHONY: deb
deb: ## build Debian packages (weft-dkms, weft-tools) into BUILD/deb
	rm -rf $(BUILD)/deb
	install -d $(BUILD)/deb/weft-$(VERSION)
	cp -R --preserve=mode,timestamps $(DEB_SOURCES) $(BUILD)/deb/weft-$(VERSION)/
	$(call remove-built,$(BUILD)/deb/weft-$(VERSION))
	cp -a packaging/debian $(BUILD)/deb/weft-$(VERSION)/
	cd $(BUILD)/deb/weft-$(VERSION) && dpkg-buildpackage --unsigned-source --unsigned-changes --build=binary

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
