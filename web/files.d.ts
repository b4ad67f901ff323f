/** Files that the build copies as they are; the import is their URL, relative to the script that imports them. */
declare module '*?file' {
  const url: string
  export default url
}

/** Texts of the documentation, as they are. */
declare module '*.md' {
  const text: string
  export default text
}
