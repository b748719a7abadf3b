import VarveEngine

/// The part of the unsynced state that survives in an image of the disk after a crash.
public enum CrashPolicy: String, Sendable, CaseIterable {
  /// Nothing survives: the earliest state that the disk may be in.
  case loseAllUnsynced
  /// A random selection survives: sectors of 512 bytes in their last or an earlier state, any size in between, and of
  /// the changes of names either a prefix or any that do not depend on a lost one.
  case keepRandomSectors
  /// Everything survives except for a few sectors and a few changes of names: writes that were reordered.
  case keepAllButReorder
  /// Everything survives: the process died and the machine did not. Only the call in progress is cut short.
  case processKill
}

/// A numbered operation: one that changes the disk, or what of it is durable.
public struct CrashOperation: Sendable, CustomStringConvertible {
  /// The kind of an operation.
  public enum Kind: String, Sendable, CaseIterable {
    /// The operations that change names.
    case createFile, rename, link, remove, createDirectory, removeDirectory
    /// The operation that makes names durable.
    case syncDirectory
    /// The operations that change bytes; `store` is a write through a mapping.
    case write, truncate, store
    /// The operation that makes bytes durable.
    case sync
  }

  /// The number of the operation, from 1.
  public let number: Int
  /// The kind of the operation.
  public let kind: Kind
  /// The path that was passed, or that the file was opened with.
  public let path: String
  /// The offset of a write or store, or the new size of a truncation.
  public let offset: Int
  /// The number of bytes of a write or store.
  public let size: Int

  /// The number, kind, path, offset and size.
  public var description: String { "#\(number) \(kind.rawValue) \(path) [\(offset), +\(size)]" }
}

/// A state of the disk with an operation in progress, from which images are drawn by seed.
public struct CrashPoint: Sendable {
  /// The effect that the operation in progress would have on the disk.
  enum Effect: Sendable {
    case none
    case names(CrashDisk.Change)
    case write(inode: Int, bytes: [UInt8], offset: Int)
    case store(inode: Int, bytes: [UInt8], offset: Int)
    case truncate(inode: Int, size: Int)
  }

  /// The operation that did not return, or `nil` for a crash between two operations.
  public let operation: CrashOperation?
  let disk: CrashDisk
  let effect: Effect

  /// Returns a file system as it is found after the crash, with everything in it durable.
  public func image(seed: UInt64, policy: CrashPolicy) -> CrashFileSystem {
    var random = SeededRandom(seed: seed)
    var disk = disk
    applyInPart(&disk, &random)
    return CrashFileSystem(disk: disk.afterCrash(policy, &random), seed: random.next())
  }

  /// Applies a random part of the operation in progress. That part is unsynced, so the policy decides whether it
  /// survives.
  private func applyInPart(_ disk: inout CrashDisk, _ random: inout SeededRandom) {
    switch effect {
    case .none: break
    case .names(let change):
      if random.oneIn(2) { disk.apply(change) }
    case .truncate(let inode, let size):
      if random.oneIn(2) { disk.truncate(inode, to: size, &random) }
    case .write(let inode, let bytes, let offset):
      // The system copies page by page, and a killed process may end between two pages.
      let first = SectorContent.sectorSize - offset % SectorContent.sectorSize
      let pieces = Self.pieces(bytes.count, first: first, size: SectorContent.sectorSize)
      let count = random.below(pieces.count + 1)
      for piece in pieces[..<count] { Self.write(bytes, piece, inode, offset, &disk, &random) }
    case .store(let inode, let bytes, let offset):
      // A memory copy usually goes forward, but the C library stores the last or first words out of order for some
      // sizes.
      let pieces = Self.pieces(bytes.count, first: 8 - offset % 8, size: 8)
      let cut = random.below(pieces.count + 1)
      let shape = random.below(4)
      for (index, piece) in pieces.enumerated() {
        let isKept =
          switch shape {
          case 0: index >= cut
          case 1: random.oneIn(2)
          default: index < cut
          }
        if isKept { Self.write(bytes, piece, inode, offset, &disk, &random) }
      }
    }
  }

  private static func write(
    _ bytes: [UInt8], _ piece: Range<Int>, _ inode: Int, _ offset: Int, _ disk: inout CrashDisk,
    _ random: inout SeededRandom
  ) {
    unsafe bytes[piece].withUnsafeBytes { unsafe disk.write(inode, $0, at: offset + piece.lowerBound, &random) }
  }

  /// Splits `count` bytes at the multiples of `size` in the file.
  private static func pieces(_ count: Int, first: Int, size: Int) -> [Range<Int>] {
    var result: [Range<Int>] = []
    var start = 0
    var end = min(first, count)
    while start < count {
      result.append(start..<end)
      start = end
      end = min(end + size, count)
    }
    return result
  }
}
