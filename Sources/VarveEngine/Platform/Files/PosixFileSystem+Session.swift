#if canImport(Darwin)
  internal import Darwin
#endif

extension PosixFileSystem {
  /// Returns the random number that the system generates when it boots, or nil if it is unknown or files are not
  /// mapped.
  public func machineSession() -> MachineSession? {
    guard mapsFiles, let text = Self.sessionText else { return nil }
    return MachineSession(text)
  }

  #if canImport(Darwin)
    private static var sessionText: String? {
      var bytes = [UInt8](repeating: 0, count: 64)
      var size = bytes.count
      guard unsafe sysctlbyname("kern.bootsessionuuid", &bytes, &size, nil, 0) == 0 else { return nil }
      return String(decoding: bytes.prefix(size), as: UTF8.self)
    }
  #else
    private static var sessionText: String? {
      guard let file = try? PosixFileSystem().openFile("/proc/sys/kernel/random/boot_id", writable: false) else {
        return nil
      }
      defer { file.close() }
      var bytes = [UInt8](repeating: 0, count: 64)
      guard let count = try? file.read(into: &bytes, at: 0) else { return nil }
      return String(decoding: bytes.prefix(count), as: UTF8.self)
    }
  #endif
}

extension MachineSession {
  /// Reads a UUID from text: 32 hexadecimal digits, with any separators between them.
  init?(_ text: String) {
    let digits = text.compactMap(\.hexDigitValue)
    guard digits.count == 32 else { return nil }
    let halves = [digits.prefix(16), digits.suffix(16)].map { $0.reduce(UInt64(0)) { $0 << 4 | UInt64($1) } }
    self.init(high: halves[0], low: halves[1])
  }
}
