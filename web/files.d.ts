/** Files that the build copies as they are; the import is their URL, relative to the script that imports them. */
declare module '*?file' {
  const url: string
  export default url
}

/** Scripts that the build makes documents of; the import is the name of the document, beside the importing script. */
declare module '*?document' {
  const name: string
  export default name
}

/** Texts of the documentation, as they are. */
declare module '*.md' {
  const text: string
  export default text
}

/** The part of the package that makes codes. Its own types are for Node.js. */
declare module 'qrcode/lib/core/qrcode.js' {
  /** Throws if the text is too long. */
  export function create(
    text: string,
    options: { readonly errorCorrectionLevel: 'L' | 'M' | 'Q' | 'H' },
  ): {
    readonly modules: {
      /** Modules of each side. */
      readonly size: number
      /** Row by row; 1 for a dark module. */
      readonly data: Uint8Array
    }
  }
}
