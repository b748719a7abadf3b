/// The bytes of a simulated file, in pages that copies share until one of them is written to.
///
/// An empty page stands for zeros. A copy costs one reference; the first write to a copy costs a copy of the list of
/// pages and of the page.
struct SectorContent: Sendable {
  static let pageSize = 4096
  static let sectorSize = 512

  private(set) var size = 0
  private var pages: [[UInt8]] = []

  /// The number of sectors that the bytes take.
  var sectorCount: Int { (size + Self.sectorSize - 1) / Self.sectorSize }

  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
    guard let base = buffer.baseAddress, offset < size else { return 0 }
    let count = min(buffer.count, size - offset)
    var done = 0
    while done < count {
      let (page, position) = (offset + done).quotientAndRemainder(dividingBy: Self.pageSize)
      let piece = min(count - done, Self.pageSize - position)
      if pages[page].isEmpty {
        unsafe (base + done).initializeMemory(as: UInt8.self, repeating: 0, count: piece)
      } else {
        unsafe pages[page].withUnsafeBytes { source in
          guard let start = source.baseAddress else { return }
          unsafe (base + done).copyMemory(from: start + position, byteCount: piece)
        }
      }
      done += piece
    }
    return count
  }

  mutating func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
    guard let base = bytes.baseAddress else { return }
    if offset + bytes.count > size { resize(to: offset + bytes.count) }
    var done = 0
    while done < bytes.count {
      let (page, position) = (offset + done).quotientAndRemainder(dividingBy: Self.pageSize)
      let piece = min(bytes.count - done, Self.pageSize - position)
      if pages[page].isEmpty { pages[page] = [UInt8](repeating: 0, count: Self.pageSize) }
      unsafe pages[page].withUnsafeMutableBytes { target in
        guard let start = target.baseAddress else { return }
        unsafe (start + position).copyMemory(from: base + done, byteCount: piece)
      }
      done += piece
    }
  }

  /// Changes the size. Bytes that are added are zeros, including those after an earlier truncation.
  mutating func resize(to newSize: Int) {
    let pageCount = (newSize + Self.pageSize - 1) / Self.pageSize
    if newSize < size {
      pages.removeSubrange(min(pageCount, pages.count)...)
      let used = newSize % Self.pageSize
      if used != 0, !pages[pageCount - 1].isEmpty {
        for index in used..<Self.pageSize { pages[pageCount - 1][index] = 0 }
      }
    } else if pageCount > pages.count {
      pages.append(contentsOf: repeatElement([], count: pageCount - pages.count))
    }
    size = newSize
  }

  /// Returns the bytes of a sector, with zeros past the end of the file.
  func sector(_ index: Int) -> [UInt8] {
    let (page, sector) = index.quotientAndRemainder(dividingBy: Self.pageSize / Self.sectorSize)
    guard page < pages.count, !pages[page].isEmpty else { return [UInt8](repeating: 0, count: Self.sectorSize) }
    return [UInt8](pages[page][sector * Self.sectorSize..<(sector + 1) * Self.sectorSize])
  }

  /// Overwrites the part of a sector that lies before the end of the file.
  mutating func setSector(_ index: Int, _ bytes: [UInt8]) {
    let start = index * Self.sectorSize
    guard start < size else { return }
    let count = min(Self.sectorSize, size - start)
    unsafe bytes.withUnsafeBytes { buffer in
      unsafe write(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: start)
    }
  }
}
