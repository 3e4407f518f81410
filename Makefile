# SPDX-License-Identifier: GPL-2.0-only
#
# People's entry to weft. Nothing here knows kbuild: that is in Kbuild and kmod/.

VERSION := $(file <VERSION)
KVER    ?= $(shell uname -r)
PREFIX  ?= /usr/local
BUILD   ?= build
DESTDIR ?=
# What `make release` runs before it writes an archive, and whether it makes a tag.
RELEASE_CHECK ?= $(MAKE) check
TAG     ?=
LAB     := tests/lab/lab

# What a module is built from, as it is copied to /usr/src for DKMS.
DKMS_SOURCES := Kbuild LICENSE VERSION dkms.conf kmod uapi
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
tools: ## build the tools into BUILD (CSI=1: and weft-csi)
	cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DWEFT_CSI=$(if $(filter 1,$(CSI)),ON,OFF) >/dev/null
	cmake --build $(BUILD) --parallel $(shell nproc)

.PHONY: install-tools
install-tools: tools ## install tools, man pages, fio jobs, udev rules and units below PREFIX
	DESTDIR=$(DESTDIR) cmake --install $(BUILD) >/dev/null
	# So that programs find the library; of a DESTDIR it is who moves that to its place who does it.
	if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

.PHONY: dkms-install
dkms-install: ## build and install the modules for KVER by DKMS
	-dkms remove -m weft -v $(VERSION) -k $(KVER) >/dev/null 2>&1
	rm -rf /usr/src/weft-$(VERSION)
	install -d /usr/src/weft-$(VERSION)
	# Copied as root: kernel upgrades run these files as root.
	cp -R --preserve=mode,timestamps $(DKMS_SOURCES) /usr/src/weft-$(VERSION)/
	chmod -R go-w /usr/src/weft-$(VERSION)
	sed -i 's/#MODULE_VERSION#/$(VERSION)/' /usr/src/weft-$(VERSION)/dkms.conf
	$(call remove-built,/usr/src/weft-$(VERSION))
	dkms install -m weft -v $(VERSION) -k $(KVER)

.PHONY: uninstall
uninstall: ## remove what dkms-install and install-tools have installed
	if [ -d /usr/src/weft-$(VERSION) ]; then dkms remove -m weft -v $(VERSION) --all; fi
	rm -rf /usr/src/weft-$(VERSION)
	# cmake lists the files that it installs.
	if [ -e $(BUILD)/install_manifest.txt ]; then \
		sed 's|^|$(DESTDIR)|' $(BUILD)/install_manifest.txt | xargs -d '\n' rm -f; fi

.PHONY: deb
deb: ## build Debian packages, and their source package, into BUILD/deb
	rm -rf $(BUILD)/deb
	install -d $(BUILD)/deb/weft-$(VERSION)
	cp -R --preserve=mode,timestamps $(DEB_SOURCES) $(BUILD)/deb/weft-$(VERSION)/
	$(call remove-built,$(BUILD)/deb/weft-$(VERSION))
	cp -a packaging/debian $(BUILD)/deb/weft-$(VERSION)/
	cd $(BUILD)/deb/weft-$(VERSION) && dpkg-buildpackage --unsigned-source --unsigned-changes --build=full

.PHONY: release
release: ## check and archive this commit into BUILD/release (TAG=1: and tag it; RELEASE_CHECK: what to run)
	@packaging/release --check '$(RELEASE_CHECK)' --output $(BUILD)/release $(if $(filter 1,$(TAG)),--tag)

.PHONY: demo
demo: ## boot a guest, stripe a volume over two rails, lose one, read into device memory, measure
	@tests/demo

.PHONY: unit
unit: ## run the unit tests on this machine
	@tests/check --only unit

.PHONY: test
test: ## run the tests whose names hold T, on kernel K: make test T=stripe K=backports
	@tests/check $(if $(T),--only $(T),$(error name a test: make test T=stripe)) $(if $(K),--kernel $(K))

.PHONY: quick
quick: ## run unit tests, style and the main story, as far as edits concern them
	@tests/check --quick

.PHONY: check
check: ## run the tests
	@tests/check

.PHONY: check-all
check-all: ## run each test on a kernel more, and the long ones (RESUME=1: go on; PART=2/4: that quarter; EVERY=1: each kernel)
	@tests/check --all $(if $(EVERY),--every-kernel) $(if $(PART),--part $(PART)) $(if $(RESUME),--resume)

.PHONY: coverage
coverage: ## line coverage of the host's unit tests, into BUILD/coverage (COVERAGE_EXTRA: traces to add)
	@tests/coverage --output $(BUILD)/coverage $(COVERAGE_EXTRA)

.PHONY: kernel-coverage
kernel-coverage: ## line coverage of the modules by the tests in User Mode Linux, into build/coverage
	@tests/kernel-coverage

.PHONY: bench
bench: ## count instructions per I/O against md and dm, into BUILD/bench.json (B: only these suites)
	@tests/bench/bench --output $(BUILD)/bench.json $(addprefix --suite ,$(B))

.PHONY: bench-qos
bench-qos: ## measure small reads beside a checkpoint, by weft and its peers, into BUILD/bench-qos.json
	@tests/bench/qos --output $(BUILD)/bench-qos.json

.PHONY: clean
clean: ## remove what was built here (not the lab's cache)
	rm -rf $(BUILD)
