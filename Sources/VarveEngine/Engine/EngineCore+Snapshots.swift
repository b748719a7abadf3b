extension EngineCore {
  /// Returns a snapshot, which holds the views of all families if another process may change them.
  func makeSnapshot(as reader: EngineEvent.Reader = .snapshot) -> EngineSnapshot {
    guard let views else { return EngineSnapshot(list: snapshots, as: reader) { pipeline.visible } }
    return views.whileStill {
      EngineSnapshot(
        list: snapshots, as: reader, holding: { HeldViews(registry.all, empty: pipeline.memory.empty) }
      ) { pipeline.visible }
    }
  }

  /// Returns a retained view for a cursor, and the snapshot to read it at.
  func retainView(
    of family: FamilyState, _ snapshot: EngineSnapshot?
  ) -> (view: ReadView, snapshot: EngineSnapshot) {
    if let snapshot {
      return (snapshot.held?.view(of: family) ?? family.retainView(), EngineSnapshot(cursorAt: snapshot))
    }
    // The sequence comes first: it is registered from then on, and any later view has all that it sees.
    guard let views else {
      let snapshot = makeSnapshot(as: .cursor)
      return (family.retainView(), snapshot)
    }
    return views.whileStill {
      let snapshot = EngineSnapshot(list: snapshots, as: .cursor) { pipeline.visible }
      return (family.retainView(), snapshot)
    }
  }
}
