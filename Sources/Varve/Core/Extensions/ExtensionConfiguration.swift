/// The configuration of an extension: what it keeps and receives. It is one value, read once, at the registration.
public struct ExtensionConfiguration: Sendable {
  /// The version of everything that has no version of its own.
  ///
  /// Another version rebuilds the whole extension. It must not be empty or contain `=` or U+001F.
  public var version: String
  /// The number of the layout of what the extension keeps. A program with a smaller number than the one on disk is
  /// refused with `.unsupportedVersion`. Default 1.
  public var layout: UInt32 = 1
  /// The collections whose rows the extension receives. Default all.
  public var scope: CollectionScope = .all
  /// The events that the extension receives. Default inserts, updates and removals.
  public var events: RowEvents = [.inserts, .updates, .removals]
  /// The needs of the extension in addition to the events. Default none.
  public var needs: Needs = []
  /// When the extension receives the events. Default `.afterCurrent`.
  public var delivery: Delivery = .afterCurrent
  /// A Boolean value that indicates whether `flush` changes rows although the delivery is `.immediate`.
  ///
  /// Other extensions then receive these changes like those of the program. The extension's hooks must not change rows
  /// in any case. Default false.
  @_spi(Extensions) public var flushChangesRows = false
  /// The parts that the extension keeps: at most 64, each with a unique name.
  public var parts: [PartDefinition] = []
  /// The names of the extensions that this one reads.
  ///
  /// They must be registered before it, and receive each change before it. It is unregistered together with them.
  /// Default none.
  public var dependencies: [String] = []
  /// A Boolean value that indicates whether the transaction object has fields that a savepoint has to undo.
  ///
  /// If true, `mark` and `rollBack(to:)` are called. If false, the default, the fields survive an undone savepoint, and
  /// the extension must not change anything but its parts.
  public var keepsState = false
  /// A Boolean value that indicates whether the extension's hooks may run in concurrent transactions, because they read
  /// and write only what belongs to the row. Default false.
  public var isConcurrent = false
  /// A Boolean value that indicates whether the extension can be brought up to date by the keys of the rows that
  /// changed while no program had it registered.
  ///
  /// If true, its transaction object implements `didMiss`, and `removesAll` if it can. If false, the default, the
  /// extension is built again instead.
  ///
  /// If its scope has many rows, the extension's first build writes tables without holding the writer, and then
  /// delivers the changes that were made meanwhile in the same way.
  ///
  /// True suits an extension that can find everything it keeps of a row by the row's key. It does not suit one that
  /// needs the old object, or the number of a removed row, to remove what it kept, because neither is available any
  /// more. An extension with `dependencies` is built again in any case.
  public var catchesUp = false
  /// A Boolean value that indicates whether writes to complete parts also count while other parts of the extension are
  /// being built.
  ///
  /// If false, the default, the rows that a build passes to the extension count only for the parts that are being
  /// built.
  ///
  /// True suits an extension that keeps a note of what it has written for each row, and updates a row's entries by that
  /// note. A new version of one part then lets it review what all parts have for each row, while these remain in use.
  var reviewsWholeParts = false
  /// The names of the parts that must be the same on disk as in this program, if another program writes the database;
  /// `nil` requires all parts to be. Each other part can be read by itself, and one that is missing is not ready.
  var commonParts: [String]?
  /// A Boolean value that indicates whether the extension looks up rows of its scope by number
  /// (`ExtensionContext.key(of:)`). Default false.
  ///
  /// As long as such an extension is registered, the database maintains a map for the rows of its scope, at the cost of
  /// a short entry per row; extensions of the same scope share the entries.
  public var asksRowsByID = false
  /// Whether the extension receives rows that exist already when it is first registered. Default `.background`.
  public var build: Build = .background

  /// Creates a configuration with a version, and defaults for all other properties.
  public init(version: String) { self.version = version }

  /// The needs of an extension in addition to the changes that it receives.
  public struct Needs: OptionSet, Hashable, Sendable {
    /// The raw bits.
    public let rawValue: UInt8
    /// Creates a set from raw bits.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The extension reads the row as the change found it: `RowChange.old`. Costs a copy of the old row per change.
    public static let oldRows = Needs(rawValue: 1)
    /// The extension is asked before each change: `ExtensionTransaction.willChange`.
    public static let before = Needs(rawValue: 2)
  }

  /// The time at which an extension receives a change.
  public enum Delivery: Sendable {
    /// Before the call that makes the change returns, even inside hooks. Such an extension must not write rows in its
    /// hooks, and must depend only on immediate extensions.
    case immediate
    /// After the current change: a change that a hook makes is received once all extensions have received the change
    /// for which the hook is called.
    case afterCurrent
  }

  /// The treatment of rows that exist already.
  public enum Build: Sendable {
    /// The extension does not receive them.
    case none
    /// The extension receives them chunk by chunk, while others write.
    case background
  }
}

/// The kinds of changes of rows that an extension receives.
public struct RowEvents: OptionSet, Hashable, Sendable {
  /// The raw bits.
  public let rawValue: UInt8
  /// Creates a set from raw bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Insertions of rows that did not exist.
  public static let inserts = RowEvents(rawValue: 1)
  /// Replacements of rows or of their objects.
  public static let updates = RowEvents(rawValue: 2)
  /// Replacements of metadata whose object stays.
  public static let metadata = RowEvents(rawValue: 4)
  /// Removals of rows.
  public static let removals = RowEvents(rawValue: 8)
  /// Touches of rows, objects and metadata.
  public static let touches = RowEvents(rawValue: 16)
  /// All kinds of changes.
  public static let all: RowEvents = [.inserts, .updates, .metadata, .removals, .touches]
}

/// The collections whose changes an extension receives.
public enum CollectionScope: Sendable, Hashable {
  /// All collections.
  case all
  /// The named collections.
  case only(Set<String>)
  /// All collections except the named ones.
  case except(Set<String>)

  /// Returns whether a collection belongs to the scope.
  public func contains(_ collection: String) -> Bool {
    switch self {
    case .all: true
    case .only(let names): names.contains(collection)
    case .except(let names): !names.contains(collection)
    }
  }
}
