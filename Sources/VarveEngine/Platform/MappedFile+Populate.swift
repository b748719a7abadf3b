internal import CVarve

extension MappedFile {
  /// Makes all pages present and writable, so that later stores do not fault. A hint: failure only
  /// means that they do.
  func populate() {
    guard !isObserved else { return }
    _ = unsafe cvarve_populate_for_writing(base, size)
  }
}
