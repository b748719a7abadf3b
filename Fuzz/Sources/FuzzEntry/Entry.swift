import FuzzTargets

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

// The entry points that libFuzzer calls. The environment variable VARVE_FUZZ_TARGET names the target.

private let target: FuzzTarget = {
  guard let name = getenv("VARVE_FUZZ_TARGET"), let target = FuzzTarget(rawValue: String(cString: name)) else {
    fatalError("set VARVE_FUZZ_TARGET to one of \(FuzzTarget.allCases.map(\.rawValue))")
  }
  return target
}()

/// The memory of the inputs. The address sanitizer checks the heap more closely than guard pages could.
nonisolated(unsafe) private let memory = GuardedMemory()

/// Runs one execution. A fault ends the process as a trap does, so that libFuzzer keeps the input.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
  let bytes = [UInt8](UnsafeBufferPointer(start: data, count: size))
  do {
    _ = try target.run(bytes, in: memory)
  } catch {
    fatalError("\(target.rawValue): \(error)")
  }
  return 0
}

@_silgen_name("LLVMFuzzerMutate")
private func mutate(_ data: UnsafeMutablePointer<UInt8>, _ size: Int, _ sizeMaximum: Int) -> Int

/// Applies libFuzzer's own changes and then corrects the checksums: otherwise no code after a checksum would be
/// reached.
@_cdecl("LLVMFuzzerCustomMutator")
public func customMutator(
  _ data: UnsafeMutablePointer<UInt8>, _ size: Int, _ sizeMaximum: Int, _ seed: CUnsignedInt
) -> Int {
  let count = mutate(data, size, sizeMaximum)
  guard seed % 8 != 0 else { return count }
  var bytes = [UInt8](UnsafeBufferPointer(start: data, count: count))
  FuzzRun.seal(&bytes, target)
  for index in 0..<min(bytes.count, sizeMaximum) { data[index] = bytes[index] }
  return min(bytes.count, sizeMaximum)
}
