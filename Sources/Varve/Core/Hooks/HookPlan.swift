internal import Synchronization

/// The extensions that receive the changes of one collection, and the events that each of them receives. It is computed
/// once for a list of extensions, and read without a lock.
final class HookPlan: Sendable {
  /// One extension that receives changes.
  struct Listener: Sendable {
    /// The extension's index in the list.
    let slot: Int
    let events: RowEvents
    let needs: ExtensionConfiguration.Needs
  }

  let collection: UInt32
  /// The extensions that receive a change before the call returns.
  let immediate: [Listener]
  /// The extensions that receive a change after the current one.
  let later: [Listener]
  /// The extensions that are asked before a change.
  let asked: [Listener]
  /// The events that at least one of the extensions receives.
  let events: RowEvents
  /// The events for which at least one of the extensions needs the old row.
  let oldEvents: RowEvents
  /// Whether an extension other than the database's own receives changes.
  let hasExternalListeners: Bool

  /// The indexes in the list of the extensions that receive removals, in ascending order.
  var removalListeners: [Int] { (immediate + later).filter { $0.events.contains(.removals) }.map(\.slot).sorted() }

  /// Returns the plan restricted to the extensions with the given indexes.
  func limited(to slots: Set<Int>) -> HookPlan { HookPlan(self) { slots.contains($0.slot) } }

  private init(_ plan: HookPlan, _ isMeant: (Listener) -> Bool) {
    collection = plan.collection
    immediate = plan.immediate.filter(isMeant)
    later = plan.later.filter(isMeant)
    asked = plan.asked.filter(isMeant)
    events = (immediate + later).reduce(into: []) { $0.formUnion($1.events) }
    oldEvents = plan.oldEvents
    hasExternalListeners = plan.hasExternalListeners
  }

  init(_ info: CollectionInfo, _ list: [RegisteredExtension]) {
    collection = info.record.id
    var immediate: [Listener] = []
    var later: [Listener] = []
    var events: RowEvents = []
    var oldEvents: RowEvents = []
    var hasExternalListeners = false
    for (slot, registered) in list.enumerated() where registered.traits.scope.contains(info.name) {
      let configuration = registered.traits.configuration
      let listener = Listener(slot: slot, events: configuration.events, needs: configuration.needs)
      if registered.traits.isImmediate { immediate.append(listener) } else { later.append(listener) }
      events.formUnion(listener.events)
      if listener.needs.contains(.oldRows) { oldEvents.formUnion(listener.events) }
      if !RowIDMap.isMap(registered.name) { hasExternalListeners = true }
    }
    self.immediate = immediate
    self.later = later
    asked = (immediate + later).filter { $0.needs.contains(.before) }.sorted { $0.slot < $1.slot }
    self.events = events
    self.oldEvents = oldEvents
    self.hasExternalListeners = hasExternalListeners
  }
}

/// The plans of a list of extensions, by collection.
final class HookPlans: Sendable {
  private let plans = Mutex<[UInt32: HookPlan]>([:])

  /// Returns the plan of a collection, and makes it if there is none yet. A plan never becomes outdated by a renamed
  /// collection, because the list is made again then.
  func plan(_ info: CollectionInfo, _ list: [RegisteredExtension]) -> HookPlan {
    plans.withLock { plans in
      if let plan = plans[info.record.id] { return plan }
      let plan = HookPlan(info, list)
      plans[info.record.id] = plan
      return plan
    }
  }
}
