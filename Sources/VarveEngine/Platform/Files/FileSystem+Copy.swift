extension FileSystem {
  private static var copyPieceSize: Int { 256 << 10 }

  /// Copies the first `size` bytes of a file, which it must have, to a new file, possibly of another file system, and
  /// syncs the new file.
  ///
  /// Throws `.corruption` if the file is shorter. If it throws, it removes the new file.
  package func copyFile(
    _ path: String, to newPath: String, on target: (any FileSystem)? = nil, size: UInt64
  ) throws(EngineError) {
    let target: any FileSystem = target ?? self
    let source = try openFile(path, writable: false)
    defer { source.close() }
    let copy = try target.createFile(newPath)
    defer { copy.close() }
    do throws(EngineError) {
      var piece = [UInt8](repeating: 0, count: Int(min(UInt64(Self.copyPieceSize), max(size, 1))))
      var offset: UInt64 = 0
      while offset < size {
        try TaskCancellation.check()
        let wanted = Int(min(UInt64(piece.count), size - offset))
        if wanted < piece.count { piece.removeLast(piece.count - wanted) }
        guard try source.read(into: &piece, at: offset) == wanted else {
          throw .corruption("file ends before byte \(size)", file: path, offset: offset)
        }
        try copy.write(piece, at: offset)
        offset += UInt64(wanted)
      }
      try copy.sync()
    } catch {
      try? target.remove(newPath)
      throw error
    }
  }
}
