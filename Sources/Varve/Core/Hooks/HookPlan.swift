internal import Synchronization

/// Which extensions receive the changes of one collection, and which of them: computed once for a list of extensions,
/// and read without a lock.
final class HookPlan: Sendable {
  /// One extension that receives changes.
  struct Hearer: Sendable {
    /// Its index in the list.
    let slot: Int
    let events: RowEvents
    let needs: Needs
  }

  let collection: UInt32
  /// Those that receive a change before the call returns.
  let immediate: [Hearer]
  /// Those that receive it after the current one.
  let later: [Hearer]
  /// Those that are asked before.
  let asked: [Hearer]
  /// What any of them receives.
  let events: RowEvents
  /// The events for which one of them needs the old row.
  let oldEvents: RowEvents
  /// Whether one that is not the database's own receives changes.
  let isRead: Bool

  /// The places of those that receive removals, in order.
  var removalHearers: [Int] { (immediate + later).filter { $0.events.contains(.removals) }.map(\.slot).sorted() }

  /// The same without the extensions that are not named.
  func limited(to slots: Set<Int>) -> HookPlan { HookPlan(self) { slots.contains($0.slot) } }

  private init(_ plan: HookPlan, _ isMeant: (Hearer) -> Bool) {
    collection = plan.collection
    immediate = plan.immediate.filter(isMeant)
    later = plan.later.filter(isMeant)
    asked = plan.asked.filter(isMeant)
    events = (immediate + later).reduce(into: []) { $0.formUnion($1.events) }
    oldEvents = plan.oldEvents
    isRead = plan.isRead
  }

  init(_ info: CollectionInfo, _ list: [RegisteredExtension]) {
    collection = info.record.id
    var immediate: [Hearer] = []
    var later: [Hearer] = []
    var events: RowEvents = []
    var oldEvents: RowEvents = []
    var isRead = false
    for (slot, registered) in list.enumerated() where registered.traits.scope.contains(info.name) {
      let configuration = registered.traits.configuration
      let hearer = Hearer(slot: slot, events: configuration.hears, needs: configuration.needs)
      if registered.traits.isImmediate { immediate.append(hearer) } else { later.append(hearer) }
      events.formUnion(hearer.events)
      if hearer.needs.contains(.oldRows) { oldEvents.formUnion(hearer.events) }
      if !RowIDMap.isMap(registered.name) { isRead = true }
    }
    self.immediate = immediate
    self.later = later
    asked = (immediate + later).filter { $0.needs.contains(.before) }.sorted { $0.slot < $1.slot }
    self.events = events
    self.oldEvents = oldEvents
    self.isRead = isRead
  }
}

/// The plans of a list of extensions, by collection.
final class HookPlans: Sendable {
  private let plans = Mutex<[UInt32: HookPlan]>([:])

  /// The plan of a collection, made where there is none yet. Where a collection gets another name, the list is made
  /// again.
  func plan(_ info: CollectionInfo, _ list: [RegisteredExtension]) -> HookPlan {
    plans.withLock { plans in
      if let plan = plans[info.record.id] { return plan }
      let plan = HookPlan(info, list)
      plans[info.record.id] = plan
      return plan
    }
  }
}
