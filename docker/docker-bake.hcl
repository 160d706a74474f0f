# Made by docker/lock from docker/pins.toml and docker/pins.lock.json: change those, not this.
# What is empty here comes from a second file (docker/decide --bake-values FILE) or from --set.

group "default" {
  targets = ["cuda", "rocm"]
}

group "cuda" {
  targets = ["cuda-12-9", "cuda-13-0"]
}

target "builder-cuda" {
  context = "docker"
  dockerfile = "Dockerfile.builder"
  platforms = ["linux/amd64", "linux/arm64"]
  contexts = {
    source = "."
  }
  args = {
    RUST_IMAGE = "docker.io/library/rust:1.95.0-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1"
    BACKEND = "cuda"
    TMS_VERSION = ""
  }
}

target "cuda-12-9" {
  context = "docker"
  dockerfile = "Dockerfile.cuda"
  platforms = ["linux/amd64", "linux/arm64"]
  contexts = {
    "dormant-builder" = "target:builder-cuda"
  }
  args = {
    BUILDER_IMAGE = "dormant-builder"
    BASE_IMAGE = "docker.io/nvidia/cuda:12.9.1-base-ubuntu24.04@sha256:29e5e3425e2e0f5a4e97c9fb4695ba4887cd78210a43cf94c3bcafc6ab01c5e6"
    BASE_NAME = "docker.io/nvidia/cuda:12.9.1-base-ubuntu24.04"
    BASE_DIGEST = "sha256:29e5e3425e2e0f5a4e97c9fb4695ba4887cd78210a43cf94c3bcafc6ab01c5e6"
    VARIANT = "cuda-12.9"
    VERSION = ""
    SOURCE_URL = ""
    EXPECT_COMMIT = ""
    EXPECT_SOURCE = ""
    INPUTS = ""
    RECIPE = ""
  }
}

target "cuda-13-0" {
  context = "docker"
  dockerfile = "Dockerfile.cuda"
  platforms = ["linux/amd64", "linux/arm64"]
  contexts = {
    "dormant-builder" = "target:builder-cuda"
  }
  args = {
    BUILDER_IMAGE = "dormant-builder"
    BASE_IMAGE = "docker.io/nvidia/cuda:13.0.1-base-ubuntu24.04@sha256:f8ef28f579ea42a44b415d2c5d46f788e6a9b395c6c83f2929416e1fc192c143"
    BASE_NAME = "docker.io/nvidia/cuda:13.0.1-base-ubuntu24.04"
    BASE_DIGEST = "sha256:f8ef28f579ea42a44b415d2c5d46f788e6a9b395c6c83f2929416e1fc192c143"
    VARIANT = "cuda-13.0"
    VERSION = ""
    SOURCE_URL = ""
    EXPECT_COMMIT = ""
    EXPECT_SOURCE = ""
    INPUTS = ""
    RECIPE = ""
  }
}

group "rocm" {
  targets = ["rocm-7-0", "rocm-7-2"]
}

target "builder-rocm" {
  context = "docker"
  dockerfile = "Dockerfile.builder"
  platforms = ["linux/amd64"]
  contexts = {
    source = "."
  }
  args = {
    RUST_IMAGE = "docker.io/library/rust:1.95.0-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1"
    BACKEND = "hip"
    TMS_VERSION = ""
  }
}

target "rocm-7-0" {
  context = "docker"
  dockerfile = "Dockerfile.rocm"
  platforms = ["linux/amd64"]
  contexts = {
    "dormant-builder" = "target:builder-rocm"
  }
  args = {
    BUILDER_IMAGE = "dormant-builder"
    BASE_IMAGE = "docker.io/rocm/dev-ubuntu-24.04:7.0.2-complete@sha256:1f016cc06d83c615872d7464a9eeaa812b86d8e0512933a3be27bf3980ee5e06"
    BASE_NAME = "docker.io/rocm/dev-ubuntu-24.04:7.0.2-complete"
    BASE_DIGEST = "sha256:1f016cc06d83c615872d7464a9eeaa812b86d8e0512933a3be27bf3980ee5e06"
    VARIANT = "rocm-7.0"
    VERSION = ""
    SOURCE_URL = ""
    EXPECT_COMMIT = ""
    EXPECT_SOURCE = ""
    INPUTS = ""
    RECIPE = ""
  }
}

target "rocm-7-2" {
  context = "docker"
  dockerfile = "Dockerfile.rocm"
  platforms = ["linux/amd64"]
  contexts = {
    "dormant-builder" = "target:builder-rocm"
  }
  args = {
    BUILDER_IMAGE = "dormant-builder"
    BASE_IMAGE = "docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:bdc8e61026cbb844ede93d44d2c50055f51ebb2041906b60182bf3bee3139054"
    BASE_NAME = "docker.io/rocm/dev-ubuntu-24.04:7.2.4"
    BASE_DIGEST = "sha256:bdc8e61026cbb844ede93d44d2c50055f51ebb2041906b60182bf3bee3139054"
    VARIANT = "rocm-7.2"
    VERSION = ""
    SOURCE_URL = ""
    EXPECT_COMMIT = ""
    EXPECT_SOURCE = ""
    INPUTS = ""
    RECIPE = ""
  }
}
