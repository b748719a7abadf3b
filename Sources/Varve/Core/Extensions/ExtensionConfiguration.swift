/// What an extension keeps and receives: one value, read once, at its registration.
public struct ExtensionConfiguration: Sendable {
  /// The version of everything that has no version of its own. Another one rebuilds the whole extension. Neither empty
  /// nor with `=` or U+001F.
  public var version: String
  /// The form of what the extension keeps. A program with a smaller number than the disk's is refused:
  /// `.unsupportedVersion`. Default 1.
  public var layout: UInt32 = 1
  /// The collections whose rows it receives. Default all.
  public var scope: CollectionScope = .all
  /// The events that it receives. Default inserts, updates and removals.
  public var hears: RowEvents = [.inserts, .updates, .removals]
  /// What else it needs with them. Default nothing.
  public var needs: Needs = []
  /// When it receives them. Default `.afterCurrent`.
  public var delivery: Delivery = .afterCurrent
  /// Whether its `flush` changes rows, although its delivery is `.immediate`: then other extensions receive those changes as
  /// they do those of the program. Its hooks change none all the same. Default false.
  public var flushChangesRows = false
  /// What it keeps: at most 64 parts, each with a name of its own.
  public var parts: [PartDefinition] = []
  /// The names of extensions that this one reads. They are registered before it, receive each change before it, and it
  /// goes with them. Default none.
  public var dependencies: [String] = []
  /// Whether its transaction keeps fields that a savepoint has to undo: then `mark` and `rollBack(to:)` are called.
  /// Default false: the fields survive an undone savepoint, and the extension may change nothing but its parts.
  public var keepsState = false
  /// Whether its hooks may run in transactions side by side: they read and write nothing but what belongs to the row.
  /// Default false.
  public var isConcurrent = false
  /// Whether it can be brought up to date by the keys of the rows that changed while no program had it registered:
  /// then its transaction has `didMiss`, and `removesAll` where it can. Default false: it is built again then.
  ///
  /// Where its scope has many rows, its first build goes by tables, without the writer, and brings it what changed
  /// meanwhile in the same way.
  ///
  /// True suits an extension that knows by a row's key all that it keeps of it. It does not suit one that needs the old
  /// object, or the number of a row that is gone, to remove what it kept: both are gone. One that has `dependencies` is
  /// built again in any case.
  public var catchesUp = false
  /// Whether what it writes to parts that have all rows counts too while others of its parts are built. Default false: the
  /// rows that a build gives it count for the parts that are built, and for no other.
  ///
  /// True suits an extension that keeps what it has written of each row, and brings a row's entries up to date by that. A
  /// new version of one part then lets it review what all parts have of each row, while these stay in use.
  public var reviewsWholeParts = false
  /// Where another program writes: the parts that have to be on disk as they are here; others can be read each by itself, and
  /// one that is not there is not ready. Nil: all have to.
  var commonParts: [String]?
  /// Whether it asks which row of its scope has a number (`ExtensionContext.key(of:)`). Default false. The database keeps
  /// that for the rows of its scope, at the cost of a short entry a row, as long as one that asks is registered;
  /// extensions of the same scope share the entries.
  public var asksRowsByID = false
  /// Whether rows that exist already are given to it when it is registered first. Default `.background`.
  public var build: Build = .background

  /// A configuration; all but the version has a default.
  public init(version: String) { self.version = version }

  /// When an extension receives a change.
  public enum Delivery: Sendable {
    /// Before the call that makes the change returns, also inside hooks. Such an extension writes no rows, and depends
    /// on immediate ones only.
    case immediate
    /// After the current change: what a hook writes is received when all have received the change that the hook is
    /// called for.
    case afterCurrent
  }

  /// What happens with rows that exist already.
  public enum Build: Sendable {
    /// They are not given to it.
    case none
    /// They are given to it chunk by chunk, while others write.
    case background
  }
}

/// Which changes of rows an extension receives.
public struct RowEvents: OptionSet, Hashable, Sendable {
  /// The bits.
  public let rawValue: UInt8
  /// Events of bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Rows that were not there.
  public static let inserts = RowEvents(rawValue: 1)
  /// Rows that were set again, and objects that were replaced.
  public static let updates = RowEvents(rawValue: 2)
  /// Metadata that were replaced, with the object as it was.
  public static let metadata = RowEvents(rawValue: 4)
  /// Rows that were removed.
  public static let removals = RowEvents(rawValue: 8)
  /// Rows, objects and metadata that were touched.
  public static let touches = RowEvents(rawValue: 16)
  /// Each of them.
  public static let all: RowEvents = [.inserts, .updates, .metadata, .removals, .touches]
}

/// What an extension needs with the changes that it receives.
public struct Needs: OptionSet, Hashable, Sendable {
  /// The bits.
  public let rawValue: UInt8
  /// Needs of bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The row as the change found it: `RowChange.old`. Costs a copy of the old row a change.
  public static let oldRows = Needs(rawValue: 1)
  /// To be asked before the change: `ExtensionTransaction.willChange`.
  public static let before = Needs(rawValue: 2)
}

/// Which collections an extension receives changes of.
public enum CollectionScope: Sendable, Hashable {
  /// All of them.
  case all
  /// These.
  case only(Set<String>)
  /// All but these.
  case except(Set<String>)

  /// Whether a collection belongs to it.
  public func contains(_ collection: String) -> Bool {
    switch self {
    case .all: true
    case .only(let names): names.contains(collection)
    case .except(let names): !names.contains(collection)
    }
  }
}
