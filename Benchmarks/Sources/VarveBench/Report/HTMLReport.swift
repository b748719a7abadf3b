struct HTMLReport {
  let rows: [Row]
  var page: String { "" }
}
