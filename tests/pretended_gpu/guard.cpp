// Makes a CPU build of torch believe that there is one CUDA device, which does nothing: tensors on `cuda` without values
// (device.py) then have autograd, indexing and views.

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace c10::impl {

struct PretendedGuard : NoOpDeviceGuardImpl<DeviceType::CUDA> {
  static Stream stream() { return Stream(Stream::DEFAULT, Device(DeviceType::CUDA, 0)); }
  Device getDevice() const override { return Device(DeviceType::CUDA, 0); }
  Device exchangeDevice(Device) const override { return getDevice(); }
  Stream getStream(Device) const noexcept override { return stream(); }
  Stream exchangeStream(Stream) const noexcept override { return stream(); }
  void record(void** event, const Stream&, const DeviceIndex, const EventFlag) const override { *event = this_event(); }
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  static void* this_event() { static int event; return &event; }
};

C10_REGISTER_GUARD_IMPL(CUDA, PretendedGuard);

}  // namespace c10::impl

namespace at {

struct PretendedHooks : CUDAHooksInterface {
  explicit PretendedHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return false; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex current_device() const override { return 0; }
};

C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", PretendedHooks)

}  // namespace at
