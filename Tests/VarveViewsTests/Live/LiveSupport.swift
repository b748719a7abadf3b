import Foundation
import Observation
import Testing
import Varve
import VarveViews

/// Waits until a condition holds that observable objects bring about.
@MainActor func waitUntil(_ condition: () -> Bool) async {
  while !condition() {
    await withCheckedContinuation { continuation in
      var isTrue = false
      withObservationTracking {
        isTrue = condition()
      } onChange: {
        continuation.resume()
      }
      _ = isTrue
    }
  }
}

/// A gate that threads of a database wait at until a test opens it.
final class ReadGate: @unchecked Sendable {
  private let condition = NSCondition()
  private var isOpen = false
  private var arrivedCount = 0

  /// Waits until the gate is open.
  func pass() {
    condition.lock()
    arrivedCount += 1
    condition.broadcast()
    while !isOpen { condition.wait() }
    condition.unlock()
  }

  func open() {
    condition.lock()
    isOpen = true
    condition.broadcast()
    condition.unlock()
  }

  /// How often the gate was reached.
  var arrived: Int {
    condition.lock()
    defer { condition.unlock() }
    return arrivedCount
  }

  /// Waits until a thread has reached the gate.
  func reached() async {
    while arrived == 0 { await Task.yield() }
  }
}

extension LiveList where Source == ShelfSource {
  /// The loaded rows as text.
  var text: String {
    sections.map { "\($0.group ?? "*"):\($0.rows.map { "\($0.id)" }.joined(separator: ","))" }.joined(separator: " ")
  }

  var shown: ShownList {
    var list = ShownList()
    list.sections = sections.map { ShownList.Section(group: $0.group, ids: $0.rows.map(\.id)) }
    return list
  }

  /// Waits until the list shows the present.
  func catchUp() async throws {
    let present = try source.database.holdSnapshot().version
    await waitUntil { state.isLoaded && (version ?? .zero) >= present && !isFiltering }
  }
}

/// Applies the changes of a list that shows all its rows, as a table view does.
@MainActor final class Table {
  var shown = ShownList()
  var log: [String] = []
  private let list: LiveList<ShelfSource>

  init(_ list: LiveList<ShelfSource>) {
    self.list = list
    list.onChange = { [unowned self] changes in
      let new = list.shown
      shown.apply(changes, from: new)
      log.append(changes.text)
      #expect(shown == new, "\(shown) instead of \(new)")
    }
  }
}
