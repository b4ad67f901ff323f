/** The import from other programs. */
export default {
  import: {
    title: 'Move from OpenList, AList or File Browser',
    program: 'Program',
    programs: {
      openlist: 'OpenList',
      alist: 'AList',
      filebrowser: 'File Browser',
      quantum: 'File Browser Quantum',
    },
    hints: {
      alist:
        'Stop the program and choose config.json and data.db in its data folder, data.db-wal if it is there, and ssh_host_rsa_key in its folder ssh, so that SFTP clients recognize this server.',
      filebrowser:
        'Stop File Browser, make users.json and config.json with “filebrowser users export users.json” and “filebrowser config export config.json”, and choose both, with shares.json if there are shares to take (see Moving).',
      quantum:
        'Stop File Browser Quantum, which must be version 2, and choose its database, and the file beside it whose name ends in -wal if it is there.',
    },
    files: 'Files (choose again to add more)',
    chosen: (names: string) => `Chosen: ${names}`,
    root: 'Folder with the files on this server, if it is not the one that File Browser had',
    openSources: 'Folders of the sources whose configuration does not have denyByDefault, one in each line',
    dryRun: 'Show what would be taken',
    report: 'What becomes of it',
    columns: { kind: 'Kind', name: 'Name', outcome: 'Outcome', reason: 'Reason' },
    kinds: {
      configuration: 'configuration',
      grant: 'grant',
      group: 'group',
      'hidden names': 'hidden names',
      passkey: 'passkey',
      passkeys: 'passkeys',
      'folder rule': 'folder rule',
      setting: 'setting',
      settings: 'settings',
      'SFTP host key': 'SFTP host key',
      share: 'share',
      'sign-in': 'sign-in',
      'SSH key': 'SSH key',
      sso_id: 'identity at a provider',
      storage: 'storage',
      tokens: 'tokens',
      user: 'user',
    },
    outcomes: { taken: 'taken', changed: 'changed', 'left out': 'left out' },
    counts: (taken: string, changed: string, leftOut: string) =>
      `${taken} taken, ${changed} changed, ${leftOut} left out`,
    warning:
      'The import replaces the accounts and storages of this server, which are those of a first start. You then sign in as the administrator of the other program, with the same password.',
    run: 'Import',
    done: 'The data is imported. Sign in as the administrator of the other program, with the same password.',
    signIn: 'Sign in again',
    notNew: 'This installation has users, storages or rules of its own. Import into a new one.',
  },
}
