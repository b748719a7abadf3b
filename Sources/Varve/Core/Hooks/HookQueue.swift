internal import Synchronization

/// The state of hooks in one transaction: the extensions that are open in it, and the changes that are queued because
/// they were made while extensions received another change.
///
/// A running hook may change any of this state, so the caller of a hook must not be accessing a field meanwhile.
final class HookQueue {
  enum Event {
    case change(ChangeFacts, HookPlan)
    case dependency(OpenExtension, name: String, any Sendable)
    /// All rows of a collection, or of all collections if it is `nil`, are removed, and the extension has removed what
    /// it kept of them.
    case all(OpenExtension, PartSet, String?)
  }

  /// The state of one extension of the transaction's list.
  struct Slot {
    /// How far the extension is built, as of its first use in the transaction.
    var reach: BuildReach?
    /// Whether the extension covers all rows.
    var isWhole = false { didSet { prepare() } }
    var open: OpenExtension? { didSet { prepare() } }
    /// The open extension and its listener if the extension covers all rows, which is so for nearly every one that
    /// receives a change.
    private(set) var ready: (open: OpenExtension, listener: any ExtensionTransaction)?

    private mutating func prepare() {
      ready = isWhole ? open.flatMap { open in open.listener.map { (open, $0) } } : nil
    }
  }

  private struct State {
    var slots: ContiguousArray<Slot>
    var lastPlan: HookPlan?
    var facts: ChangeFacts?
    var events: [Event] = []
  }

  private let state: StatePointer<State>

  /// The reason why a hook must not write rows.
  enum RowBan: UInt8 {
    /// The hook belongs to an extension with the delivery `.immediate`.
    case immediate = 1
    /// The hook is asked before all rows of a collection, or of all collections, are removed.
    case removesAll
    /// The hook receives rows from a build that collects what it writes to its parts, and nothing else.
    case ingestion
  }

  /// The flags that each write checks: bit 0 is `hasSlots`, 1 `isRunning`, 2 `isAsking`, 3 `isFlushing`, and the bits
  /// from 4 on are `rowBan`. They are atomic although only one thread uses them, because a plain field would be checked
  /// for exclusive access each time.
  private let flags = Atomic<UInt8>(0)

  /// The slots, by the extension's index in the transaction's list.
  var slots: ContiguousArray<Slot> {
    @inline(__always) _read { yield state.pointee.slots }
    @inline(__always) _modify { yield &state.pointee.slots }
  }
  /// The plan of the collection that was written last. Most transactions write to only one.
  var lastPlan: HookPlan? {
    @inline(__always) get { state.pointee.lastPlan }
    @inline(__always) set { state.pointee.lastPlan = newValue }
  }
  /// The facts that are reused for each change that is not made by a hook.
  var facts: ChangeFacts? {
    @inline(__always) get { state.pointee.facts }
    @inline(__always) set { state.pointee.facts = newValue }
  }
  /// The events that are still to be received, the oldest first.
  var events: [Event] {
    @inline(__always) _read { yield state.pointee.events }
    @inline(__always) _modify { yield &state.pointee.events }
  }
  /// The number of changes that hooks have made so far and that other hooks received later.
  var queuedCount = 0
  /// The number of notifications to extensions. A change of it makes another round of flushes due.
  var notificationCount: UInt64 = 0

  /// The number of queued changes at which hooks are considered to write to each other without end.
  var queuedMaximum = 1_000_000
  /// The number of queued changes at which a message is logged.
  static let queuedNoted = 100_000

  init(slots: Int) {
    state = StatePointer(State(slots: slots == 0 ? [] : ContiguousArray(repeating: Slot(), count: slots)))
    set(Self.slotsBit, slots > 0)
  }

  deinit { state.destroy() }

  /// Switches to another list of extensions, and keeps the state of those that are in both lists.
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

  /// Releases the state when the transaction ends.
  func end() {
    slots = []
    facts = nil
    events = []
  }

  /// Drops the newest events, so that `count` are left.
  func truncate(to count: Int) {
    if events.count > count { events.removeSubrange(count...) }
  }

  /// Closes an extension's slot. The extension is opened again when it is needed.
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

  /// Whether the list contains any extension.
  @inline(__always)
  var hasSlots: Bool { has(Self.slotsBit) }

  /// Whether extensions are receiving changes.
  @inline(__always)
  var isRunning: Bool {
    get { has(Self.runningBit) }
    set { set(Self.runningBit, newValue) }
  }

  /// Whether a hook runs that must not write, because the pending change was prepared for the rows as they are.
  @inline(__always)
  var isAsking: Bool {
    get { has(Self.askingBit) }
    set { set(Self.askingBit, newValue) }
  }

  /// Whether extensions are writing their pending changes.
  var isFlushing: Bool {
    get { has(Self.flushingBit) }
    set { set(Self.flushingBit, newValue) }
  }

  /// The reason why the running hook must not write rows, or `nil` if it may.
  @inline(__always)
  var rowBan: RowBan? {
    get { RowBan(rawValue: flags.load(ordering: .relaxed) >> Self.banShift) }
    set {
      let others = flags.load(ordering: .relaxed) & ((1 << Self.banShift) - 1)
      flags.store(others | (newValue?.rawValue ?? 0) << Self.banShift, ordering: .relaxed)
    }
  }
}
