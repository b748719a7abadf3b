internal import Synchronization

/// What hooks of one transaction need: which extensions are open in it, and the changes that are still to be received,
/// because they were made while extensions received another.
///
/// A hook that runs may change any of it: the caller of a hook has no access to a field under way.
final class HookQueue {
  enum Event {
    case change(ChangeFacts, HookPlan)
    case dependency(OpenExtension, name: String, any Sendable)
    /// All rows of a collection, with nil of all, are gone, and the extension has removed what it kept of them.
    case all(OpenExtension, PartSet, String?)
  }

  /// An extension of the transaction's list, as far as hooks need it.
  struct Slot {
    /// How far it is built, as it was when it was first looked at.
    var reach: BuildReach?
    /// Whether it has all rows.
    var isWhole = false { didSet { prepare() } }
    var open: OpenExtension? { didSet { prepare() } }
    /// Those of an extension that has all rows and was opened, as nearly every one that receives a change.
    private(set) var ready: (open: OpenExtension, hearer: any ExtensionTransaction)?

    private mutating func prepare() {
      ready = isWhole ? open.flatMap { open in open.hearer.map { (open, $0) } } : nil
    }
  }

  private struct State {
    var slots: ContiguousArray<Slot>
    var lastPlan: HookPlan?
    var facts: ChangeFacts?
    var events: [Event] = []
  }

  private let state: StatePointer<State>

  /// Why a hook may write no rows.
  enum RowBan: UInt8 {
    /// It is that of an extension with the delivery `.immediate`.
    case immediate = 1
    /// It is asked before all rows of a collection, or of all, are removed.
    case removesAll
    /// It is given rows by a build that collects what it writes to its parts, and nothing else.
    case ingestion
  }

  /// What each write asks: bit 0 `hasSlots`, 1 `isRunning`, 2 `isAsking`, 3 `isFlushing`, from bit 4 on `rowBan`. Atomic
  /// not for other threads, of which there are none, but because a field would be checked for exclusive access each time.
  private let flags = Atomic<UInt8>(0)

  /// By the index in the transaction's list.
  var slots: ContiguousArray<Slot> {
    @inline(__always) _read { yield state.pointee.slots }
    @inline(__always) _modify { yield &state.pointee.slots }
  }
  /// The plan of the collection that was written last: most transactions write to one.
  var lastPlan: HookPlan? {
    @inline(__always) get { state.pointee.lastPlan }
    @inline(__always) set { state.pointee.lastPlan = newValue }
  }
  /// Used for each change that is not made by a hook.
  var facts: ChangeFacts? {
    @inline(__always) get { state.pointee.facts }
    @inline(__always) set { state.pointee.facts = newValue }
  }
  /// What has to be received, the oldest first.
  var events: [Event] {
    @inline(__always) _read { yield state.pointee.events }
    @inline(__always) _modify { yield &state.pointee.events }
  }
  /// How many changes hooks have made so far that other hooks received later.
  var queuedCount = 0
  /// What extensions were notified of, so that another round of flushes is due.
  var notificationCount: UInt64 = 0

  /// Hooks that write to each other without end meet this bound.
  var queuedMaximum = 1_000_000
  /// From here on it looks as if they do: the log has an event.
  static let queuedNoted = 100_000

  init(slots: Int) {
    state = StatePointer(State(slots: slots == 0 ? [] : ContiguousArray(repeating: Slot(), count: slots)))
    set(Self.slotsBit, slots > 0)
  }

  deinit { state.destroy() }

  /// The transaction has another list of extensions from now on: what is known of those that stay, stays.
  func move(from old: ExtensionList, to new: ExtensionList, _ opened: [OpenExtension]) {
    let before = slots
    slots = ContiguousArray(repeating: Slot(), count: new.ordered.count)
    for (index, registered) in new.ordered.enumerated() {
      if let known = old.ordered.firstIndex(where: { $0 === registered }) {
        slots[index] = before[known]
      } else {
        slots[index].open = opened.first { $0.registered === registered }
      }
    }
    set(Self.slotsBit, !slots.isEmpty)
    lastPlan = nil
  }

  /// The transaction has ended.
  func end() {
    slots = []
    facts = nil
    events = []
  }

  /// Forgets the newest, so that so many are left.
  func truncate(to count: Int) {
    if events.count > count { events.removeSubrange(count...) }
  }

  /// It is made again when it is needed.
  func forget(_ open: OpenExtension) {
    for index in slots.indices where slots[index].open === open { slots[index].open = nil }
  }

  // MARK: - Flags

  private static var slotsBit: UInt8 { 1 }
  private static var runningBit: UInt8 { 2 }
  private static var askingBit: UInt8 { 4 }
  private static var flushingBit: UInt8 { 8 }
  private static var banShift: UInt8 { 4 }

  @inline(__always)
  private func has(_ bit: UInt8) -> Bool { flags.load(ordering: .relaxed) & bit != 0 }

  @inline(__always)
  private func set(_ bit: UInt8, _ value: Bool) {
    let others = flags.load(ordering: .relaxed) & ~bit
    flags.store(value ? others | bit : others, ordering: .relaxed)
  }

  /// Whether any extension is in the list.
  @inline(__always)
  var hasSlots: Bool { has(Self.slotsBit) }

  /// Whether extensions are receiving.
  @inline(__always)
  var isRunning: Bool {
    get { has(Self.runningBit) }
    set { set(Self.runningBit, newValue) }
  }

  /// Whether a hook runs that writes nothing: what is about to be written was made for the rows as they are.
  @inline(__always)
  var isAsking: Bool {
    get { has(Self.askingBit) }
    set { set(Self.askingBit, newValue) }
  }

  /// Whether extensions write what is pending.
  var isFlushing: Bool {
    get { has(Self.flushingBit) }
    set { set(Self.flushingBit, newValue) }
  }

  /// Whether a hook runs that writes no rows.
  @inline(__always)
  var rowBan: RowBan? {
    get { RowBan(rawValue: flags.load(ordering: .relaxed) >> Self.banShift) }
    set {
      let others = flags.load(ordering: .relaxed) & ((1 << Self.banShift) - 1)
      flags.store(others | (newValue?.rawValue ?? 0) << Self.banShift, ordering: .relaxed)
    }
  }
}
