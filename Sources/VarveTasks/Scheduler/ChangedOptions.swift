public import Foundation
public import Varve

// Calls whose options begin with the defaults of the payload (`TaskPayload.defaults`), of which a closure changes some.
// Options that are passed as a value replace the defaults as a whole.

extension TaskPayload {
  /// Returns the default options as a closure changes them.
  static func options(_ change: (inout TaskOptions) throws -> Void) rethrows -> TaskOptions {
    var options = defaults
    try change(&options)
    return options
  }
}

extension WriteTransaction {
  /// Adds a task to a queue, with the default options of its payload as a closure changes them.
  ///
  /// ```swift
  /// try tx.enqueue(Charge(card: card)) { $0.priority = 10 }
  /// ```
  /// See `enqueue(_:_:)` for the rest. Also throws the errors of the closure.
  @discardableResult
  public func enqueue<Payload: TaskPayload>(
    _ payload: Payload, _ change: (inout TaskOptions) throws -> Void
  ) throws -> EnqueueResult { try enqueue(payload, Payload.options(change)) }

  /// Adds several tasks, which run in their order, with the default options of their payload as a closure changes them.
  ///
  /// The closure is called once. See `enqueue(contentsOf:_:)` for the rest.
  @discardableResult
  public func enqueue<Payload: TaskPayload>(
    contentsOf payloads: some Sequence<Payload>, _ change: (inout TaskOptions) throws -> Void
  ) throws -> [EnqueueResult] { try enqueue(contentsOf: payloads, Payload.options(change)) }

  /// Adds a task that runs when all tasks of its group have ended, with the default options of its payload as a closure
  /// changes them.
  ///
  /// See `enqueueGroup(_:_:members:)` for the rest.
  @discardableResult
  public func enqueueGroup<Payload: TaskPayload>(
    _ last: Payload, _ change: (inout TaskOptions) throws -> Void, members: (TaskID) throws -> Void
  ) throws -> TaskID { try enqueueGroup(last, Payload.options(change), members: members) }
}

extension TaskInbox.Batch {
  /// Adds a task, with the default options of its payload as a closure changes them.
  ///
  /// See `enqueue(_:_:)` for the rest. Also throws the errors of the closure.
  public mutating func enqueue<Payload: TaskPayload>(
    _ payload: Payload, _ change: (inout TaskOptions) throws -> Void
  ) throws { try enqueue(payload, Payload.options(change)) }
}

extension TaskScheduler {
  /// Enqueues a task at the times that a cron expression specifies in a time zone, with the default options of its
  /// payload as a closure changes them.
  ///
  /// See `schedule(_:_:in:rules:options:payload:)` for the rest. Also throws the errors of the closure.
  public func schedule<Payload: TaskPayload>(
    _ name: String, _ expression: String, in zone: TimeZone = .gmt, rules: ScheduleRules = ScheduleRules(),
    options change: (inout TaskOptions) throws -> Void, payload: @escaping @Sendable (TaskSlot) throws -> Payload
  ) throws {
    let options = try Payload.options(change)
    try schedule(name, expression, in: zone, rules: rules, options: options, payload: payload)
  }
}
