/** What failures say, by their names. */
export default {
  failures: {
    notFound: 'There is no such file or folder.',
    noStorage: 'No storage is mounted here.',
    shareMissing: 'There is no such share. Check the link, or ask whoever sent it to you.',
    shareEnded: 'This share has ended. Ask whoever sent it to you for a new one.',
    storageNotStarted: (reason: string) =>
      `The storage is added, but it does not start: ${reason}. Correct it and save again, or remove it.`,
  },
}
