internal import Synchronization

/// The file `RESERVE`: space that a database keeps for itself, so that it can be opened and emptied on a full disk.
///
/// Everything costs space before it returns any: an open writes a log segment and rolls the MANIFEST, a delete is a log
/// record, and its effect needs a flush and a compaction. So the database keeps as much space as these need. It is
/// given up, by cutting the file to zero bytes, by an open without space, by the first delete or drop that is accepted
/// while the disk is full, and by a compaction that waits, if deletes free more than the reserve has; from then on only
/// writes that free space are accepted (`CommitPipeline+Reserve`) until twice as much is free and the file is written
/// again. A database that has become too small for a reserve loses the file instead.
///
/// The bytes are random and really written, because a file system may share or compress equal blocks, or allocate none.
/// On file systems that write copies of what they change, such as btrfs, a cut may itself need space: there the reserve
/// helps as far as the file system has kept some for its metadata.
///
/// # Invariants
/// 1. A file of zero bytes says that the reserve was given up and not yet regained, also after a crash.
/// 2. `isExhausted` is true from the moment at which the file is cut.
///
/// # Concurrency
/// Safe from any thread. `write` and `giveUp` exclude each other.
final class SpaceReserve: Sendable {
  private struct State: Sendable {
    /// The size of the file, or `nil` if it does not exist.
    var size: UInt64?
    var isExhausted = false
    /// The bytes that writes have put, besides their deletes, since only writes that free space are accepted.
    var putBytes: UInt64 = 0
  }

  private let path: String
  private let directory: String
  private let fileSystem: any FileSystem
  private let random: @Sendable () -> UInt64
  private let state: Mutex<State>

  /// The maximum size of the file.
  static let sizeMaximum: UInt64 = 512 << 20
  /// The file takes at most this part of the database.
  static let databaseShare: UInt64 = 16
  private static let pieceSize = 64 << 10
  /// The size of the smallest piece that is written if there is no space for more.
  private static let pieceSizeMinimum = 512

  /// Finds the file in a directory.
  static func find(in directory: String, _ environment: EngineEnvironment) throws(EngineError) -> SpaceReserve {
    let found = try environment.fileSystem.attributes(directory + "/" + FileName.reserve.name)
    return SpaceReserve(directory: directory, size: found?.size, environment)
  }

  /// Creates a reserve whose file has `size` bytes, or does not exist, as in an engine that only reads.
  init(directory: String, size: UInt64?, _ environment: EngineEnvironment) {
    self.directory = directory
    fileSystem = environment.fileSystem
    random = environment.random
    path = directory + "/" + FileName.reserve.name
    state = Mutex(State(size: size, isExhausted: size == 0))
  }

  /// The bytes that are kept.
  var size: UInt64 { state.withLock { $0.size ?? 0 } }

  /// A Boolean value that indicates whether only writes that free space are accepted.
  var isExhausted: Bool { state.withLock { $0.isExhausted } }

  /// The free space, or `UInt64.max` if it is not known.
  var freeSpace: UInt64 { (try? fileSystem.freeSpace(directory)) ?? .max }

  /// Notes that there is no space for what writes need. Returns false if there is no reserve, or this is known already.
  func noteExhausted() -> Bool {
    state.withLock { state in
      guard state.size != nil, !state.isExhausted else { return false }
      state.isExhausted = true
      return true
    }
  }

  /// Counts bytes that a write puts while only writes that free space are accepted. Returns false, and counts nothing,
  /// if all of them would be more than `limit`.
  func admit(_ putBytes: UInt64, limit: UInt64) -> Bool {
    state.withLock { state in
      guard state.putBytes + putBytes <= limit else { return false }
      state.putBytes += putBytes
      return true
    }
  }

  /// Gives up the space. Returns false if there was none.
  @discardableResult
  func giveUp() -> Bool {
    state.withLock { state in
      guard let size = state.size, size > 0 else { return false }
      state.isExhausted = true
      do throws(EngineError) {
        let file = try fileSystem.openFile(path, writable: true)
        defer { file.close() }
        try file.truncate(to: 0)
      } catch {
        return false
      }
      state.size = 0
      return true
    }
  }

  /// Removes the file of a database that has become too small for a reserve. Returns false if that is not possible.
  func remove() -> Bool {
    state.withLock { state in
      guard state.size != nil else { return true }
      do throws(EngineError) {
        try fileSystem.remove(path)
        try fileSystem.syncDirectory(directory)
      } catch {
        return false
      }
      state.size = nil
      return true
    }
  }

  /// Writes the file until it has `wanted` bytes. If there is no space for all of it, the result depends on
  /// `keepsPart`: what fits is kept, or the file stays as it was.
  @discardableResult
  func write(_ wanted: UInt64, keepsPart: Bool) -> Bool {
    state.withLock { state in
      let old = state.size ?? 0
      guard old < wanted else { return true }
      var size = old
      do throws(EngineError) {
        let file =
          state.size == nil ? try fileSystem.createFile(path) : try fileSystem.openFile(path, writable: true)
        defer { file.close() }
        state.size = old
        do throws(EngineError) {
          try fill(file, from: &size, to: wanted, inSmallerPieces: keepsPart)
          try file.sync()
        } catch {
          if !keepsPart { size = old }
          try file.truncate(to: size)
        }
        try fileSystem.syncDirectory(directory)
      } catch {
        // What the file has then is found by the next open.
      }
      state.size = size
      return size == wanted
    }
  }

  private func fill(
    _ file: any File, from size: inout UInt64, to wanted: UInt64, inSmallerPieces isPartial: Bool
  ) throws(EngineError) {
    var pieceSize = Self.pieceSize
    var piece = ByteWriter(capacity: pieceSize)
    var word = random() | 1
    while size < wanted {
      let count = Int(min(wanted - size, UInt64(pieceSize)))
      piece.removeAll()
      while piece.count < count {
        // xorshift: the bytes need not be unpredictable, only incompressible.
        word ^= word << 13
        word ^= word >> 7
        word ^= word << 17
        piece.append(integer: word)
      }
      do throws(EngineError) { try unsafe file.write(piece.view.slice(0, count).buffer, at: size) } catch {
        // Otherwise the rest of each round of opens on a full disk would go to other files.
        guard isPartial, error.code == .noSpace, pieceSize > Self.pieceSizeMinimum else { throw error }
        pieceSize /= 2
        continue
      }
      size += UInt64(count)
    }
  }

  /// Notes that there is space again.
  func noteRegained() { state.withLock { ($0.isExhausted, $0.putBytes) = (false, 0) } }
}
