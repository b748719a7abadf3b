import VarveEngine

/// What of the unsynced state survives in an image of the disk after a crash.
public enum CrashPolicy: String, Sendable, CaseIterable {
  /// Nothing: the earliest state that the disk may be in.
  case loseAllUnsynced
  /// Any sectors of 512 bytes, in their last or an earlier state, any size in between, and of the
  /// changes of names either the first so many or any that don't need a lost one.
  case keepRandomSectors
  /// Everything but a few sectors and a few changes of names: writes that went out of order.
  case keepAllButReorder
  /// Everything: the process died and the machine did not. Only the call under way is cut.
  case processKill
}

/// One numbered operation: one that changes the disk, or what of it is durable.
public struct CrashOperation: Sendable, CustomStringConvertible {
  /// What kind of operation.
  public enum Kind: String, Sendable, CaseIterable {
    /// Changes of names.
    case createFile, rename, link, remove, createDirectory, removeDirectory
    /// Makes names durable.
    case syncDirectory
    /// Changes of bytes; `store` is one through a mapping.
    case write, truncate, store
    /// Makes bytes durable.
    case sync
  }

  /// Counts from 1.
  public let number: Int
  /// What kind of operation.
  public let kind: Kind
  /// The path that was named, or that the file was opened by.
  public let path: String
  /// The offset of a write or store; the new size of a truncation.
  public let offset: Int
  /// The bytes of a write or store.
  public let size: Int

  /// Number, kind, path, offset.
  public var description: String { "#\(number) \(kind.rawValue) \(path) [\(offset), +\(size)]" }
}

/// A state of the disk with an operation under way, from which images are drawn by seed.
public struct CrashPoint: Sendable {
  /// What an operation under way would do to the disk.
  enum Effect: Sendable {
    case none
    case names(CrashDisk.Change)
    case write(inode: Int, bytes: [UInt8], offset: Int)
    case store(inode: Int, bytes: [UInt8], offset: Int)
    case truncate(inode: Int, size: Int)
  }

  /// The operation that did not return; nil for a crash between two.
  public let operation: CrashOperation?
  let disk: CrashDisk
  let effect: Effect

  /// A file system as it is found after the crash, with everything in it durable.
  public func image(seed: UInt64, policy: CrashPolicy) -> CrashFileSystem {
    var random = SeededRandom(seed: seed)
    var disk = disk
    applyInPart(&disk, &random)
    return CrashFileSystem(disk: disk.afterCrash(policy, &random), seed: random.next())
  }

  /// How far the operation came. What was begun is unsynced, so the policy decides about the rest.
  private func applyInPart(_ disk: inout CrashDisk, _ random: inout SeededRandom) {
    switch effect {
    case .none: break
    case .names(let change):
      if random.oneIn(2) { disk.apply(change) }
    case .truncate(let inode, let size):
      if random.oneIn(2) { disk.truncate(inode, to: size, &random) }
    case .write(let inode, let bytes, let offset):
      // The system copies page by page; a killed process ends in between.
      let first = SectorContent.sectorSize - offset % SectorContent.sectorSize
      let pieces = Self.pieces(bytes.count, first: first, size: SectorContent.sectorSize)
      let count = random.below(pieces.count + 1)
      for piece in pieces[..<count] { Self.write(bytes, piece, inode, offset, &disk, &random) }
    case .store(let inode, let bytes, let offset):
      // A copy of memory goes forward as a rule, but the C library's stores the last or first words of
      // some sizes out of order.
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

  /// `count` bytes cut where a multiple of `size` lies in the file.
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
