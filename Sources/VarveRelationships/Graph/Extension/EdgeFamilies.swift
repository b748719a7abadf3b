internal import Varve

/// The two families of one kind of edges, in one transaction.
struct EdgeFamily {
  let from: Part
  let to: Part
  let isManual: Bool
}

/// The families of a domain.
struct EdgeFamilies {
  let declared: EdgeFamily
  let manual: EdgeFamily

  init(_ context: ExtensionContext<Relationships>) throws {
    declared = EdgeFamily(from: try context.part("declared.from"), to: try context.part("declared.to"), isManual: false)
    manual = EdgeFamily(from: try context.part("manual.from"), to: try context.part("manual.to"), isManual: true)
  }

  var both: [EdgeFamily] { [declared, manual] }

  subscript(isManual isManual: Bool) -> EdgeFamily { isManual ? manual : declared }

  static func partDefinitions(version: String) -> [PartDefinition] {
    let declared = ["declared.from", "declared.to"].map { name in
      var part = PartDefinition(name)
      part.version = version
      return part
    }
    // Edges that were added by hand are not declared by rows, so no build can create them again.
    let manual = ["manual.from", "manual.to"].map { name in
      var part = PartDefinition(name)
      part.isDerived = false
      return part
    }
    // This family has the end of each file that has to be removed, and the identity of the file (`FileIdentity`), which
    // is empty if its root was missing.
    var files = PartDefinition("files")
    files.isDerived = false
    return declared + manual + [files]
  }
}
