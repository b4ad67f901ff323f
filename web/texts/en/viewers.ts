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
}
