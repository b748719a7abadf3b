enum ChangeFeed {
  static func append(_ changes: ChangeRecorder, label: String?, custom: [UInt8]?, to batch: inout StorageBatch, _ catalog: Catalog) {}
}
