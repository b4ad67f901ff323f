/** Looking at files, and editing them. */
export default {
  look: {
    none: 'This kind of file cannot be shown here. Download it to open it.',
    unreadable: 'You can see that this file exists, but you may not read it.',
    edit: 'Edit',
    source: 'Show the source',
    saved: 'The file is saved.',
    unsaved: 'Not saved yet',
    conflict: 'Somebody else has changed the file meanwhile. Copy your text, open the file again, and merge both.',
    readOnly: 'You can read this file, but not change it here.',
    leaveEditor: 'Tab indents. Press Escape and then Tab to leave the editor.',
    leaveUnsaved: 'The file is not saved. Leave without saving?',
    previous: 'Previous picture',
    next: 'Next picture',
    notRead: 'The file cannot be read.',
    pdfPage: (number: number) => `Page ${number}`,
  },

  preview: {
    /** The frame, for screen readers. */
    title: (name: string) => `Content of ${name}`,
    cut: 'The file is long: only its first part is shown. Download it to see all of it.',
    damaged: 'This file is damaged, or not of the kind that its name says. Download it to try another program.',
    protected:
      'This file is protected by a password or a license, or of an older format. Download it to open it in its program.',
    tooLarge: 'This file is too large to be shown here. Download it to open it.',
    silent: 'Showing this file took too long, so it was stopped. Download it to open it.',
    asTable: 'Show as a table',
    openLink: 'Open this link?',
    linkOf: 'The document leads to another site. Open it only if you trust the address:',
    /** In the document. */
    cell: 'Content of the cell',
    chapters: 'Contents',
    empty: 'This sheet is empty.',
    nextChapter: 'Next chapter',
    previousChapter: 'Previous chapter',
    sheets: 'Sheets',
  },

  longText: {
    position: 'Position in the file',
    at: (place: string, size: string, share: string) => `${place} of ${size} (${share})`,
    start: 'To the start',
    end: 'To the end',
    find: 'Find in the file',
    findNext: 'Find next',
    searching: (share: string) => `Searching … ${share}`,
    stop: 'Stop searching',
    notFound: 'Not found from here to the end of the file.',
    readOnly: 'This text is long: it is loaded part by part, and cannot be changed here.',
  },
}
