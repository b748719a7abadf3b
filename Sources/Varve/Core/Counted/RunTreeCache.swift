internal import FutexLocks

/// The trees of runs of a database's counted parts, as of its last commits.
///
/// It is a cache: a caller that finds no tree in it reads the runs. A tree is known for the versions from its commit up
/// to the next one that changed the part. Where another program writes, that is not known, and a tree is that of one
/// version.
///
/// Safe from any thread.
final class RunTreeCache: Sendable {
  private struct Entry {
    let version: CommitVersion
    /// The tree, or `nil` if it has to be read.
    var tree: RunTree?
  }

  /// The number of versions that are kept of one part even if new readers need only the last. Readers of earlier
  /// snapshots read the runs.
  static let versionCount = 64
  /// The maximum number of versions that are kept because new readers do not see later ones yet: commits that are not
  /// durable are not visible, and many may be made until the disk has written the first of them.
  private static let versionMaximum = 4_096
  private static let exactVersionMaximum = 4

  private let isExact: Bool
  /// The entries in the order of their versions, by the number of the part's family.
  private let families = FutexLock<[UInt32: ContiguousArray<Entry>]>([:])

  /// Creates a cache. `isExact` is true where another program writes.
  init(isExact: Bool) { self.isExact = isExact }

  /// Returns the tree of a part as of a version, or `nil` if it is not known.
  func tree(of family: StorageFamily, at version: CommitVersion) -> RunTree? {
    families.withLock { families in
      guard let entries = families[family.number], let entry = entries.last(where: { $0.version <= version }) else {
        return nil
      }
      return isExact && entry.version != version ? nil : entry.tree
    }
  }

  /// Adds the tree that was read at a snapshot.
  func add(_ tree: RunTree, of family: StorageFamily, at version: CommitVersion) {
    families.withLock { families in
      var entries = families[family.number] ?? []
      families[family.number] = nil
      defer { families[family.number] = entries }
      guard let first = entries.first else { return entries.append(Entry(version: version, tree: tree)) }
      // The changes between an earlier version and the first one are not known.
      guard isExact || version >= first.version else { return }
      let index = entries.lastIndex { $0.version <= version } ?? -1
      if index >= 0, entries[index].version == version {
        entries[index].tree = tree
      } else if isExact || entries[index].tree == nil {
        entries.insert(Entry(version: version, tree: tree), at: index + 1)
        trim(&entries, visible: .zero)
      }
    }
  }

  /// Records a commit that has changed a part. Commits are recorded in their order. Without a tree it has to be read.
  ///
  /// `visible` is the version that new readers see at present.
  func note(_ tree: RunTree?, of family: StorageFamily, at version: CommitVersion, visible: CommitVersion) {
    families.withLock { families in
      var entries = families[family.number] ?? []
      families[family.number] = nil
      // A reader may have read the runs of this commit already.
      entries.removeAll { $0.version >= version }
      entries.append(Entry(version: version, tree: tree))
      trim(&entries, visible: visible)
      families[family.number] = entries
    }
  }

  /// Removes the trees of a part that is dropped.
  func forget(_ family: StorageFamily) { families.withLock { $0[family.number] = nil } }

  private func trim(_ entries: inout ContiguousArray<Entry>, visible: CommitVersion) {
    // Trees that were read share no nodes.
    let kept = isExact ? Self.exactVersionMaximum : Self.versionCount
    guard entries.count > kept else { return }
    let excess = entries.count - kept
    // The tree of the visible version is that of the last commit up to it.
    let needless = isExact ? excess : (entries.lastIndex { $0.version <= visible } ?? 0)
    let removed = max(min(excess, needless), entries.count - Self.versionMaximum)
    if removed > 0 { entries.removeFirst(removed) }
  }
}
