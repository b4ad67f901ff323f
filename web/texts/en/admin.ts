/** Storages and the other pages of the administration. */
import { number } from '../format.ts'

export default {
  storages: {
    add: 'Add a storage',
    edit: 'Edit',
    editTitle: (path: string) => `Edit ${path}`,
    path: 'Path',
    driver: 'Driver',
    status: 'Status',
    space: 'Space',
    order: 'Order',
    used: (used: string, total: string) => `${used} of ${total}`,
    states: { work: 'works', disabled: 'disabled', starting: 'starting' },
    test: 'Test',
    tested: (path: string) => `The backend of ${path} can be reached.`,
    enable: 'Enable',
    disable: 'Disable',
    more: 'More options',
    saved: 'The storage is saved.',
    rootHint: 'A folder on the server, such as /srv/files',
    required: 'Fields with * have to be filled in.',
    driverManual: (driver: string) => `Documentation of ${driver}`,
    addFolder: 'Add a folder',
    addThis: (path: string) => `Add ${path}`,
    trying: 'Testing …',
    tried: 'The storage answers.',
    triedWhenSaved: 'What you have entered can be used once, so the storage is tested when you save it.',
    saveAnyway: 'Save anyway',
    free: (free: string, total: string) => `${free} of ${total} free`,
    checkedWith: (text: string, reason: string) => `${text} It says: ${reason}`,
    /** Why a storage cannot be used, by the names of failures. */
    faults: {
      not_found: 'The backend answers, but the folder is not there.',
      parent_missing: 'The backend answers, but the folder is not there.',
      not_folder: 'The backend answers, but this is a file and not a folder.',
      denied: 'The backend refuses: check the user name, the password or the key, and their permissions.',
      storage_refused: 'The backend refuses: check the user name, the password or the key, and their permissions.',
      unavailable: 'The backend cannot be used. Check the address, and whether the server runs.',
      timeout: 'The backend does not answer in time. Check the address, and whether a firewall is between.',
      invalid: 'Something here is not right.',
    },
    qr: {
      begin: 'Sign in with a QR code',
      again: 'New code',
      code: 'QR code',
      states: {
        asking: 'Requesting a code …',
        waiting: 'Scan the code with the app of this service, and confirm there.',
        scanned: 'The code is scanned. Confirm the sign-in in the app.',
        confirmed: 'You are signed in. The field above is filled in.',
        expired: 'The code has expired.',
        refused: 'The sign-in was refused in the app.',
      },
    },
    deleteTitle: 'Delete storage',
    deleteWarning: (path: string) => `${path} is no longer shown. Its files are not deleted.`,
  },

  connections: {
    about:
      'Who is connected now. Whom you disconnect can connect again: to prevent that, disable the account or what it signs in with.',
    open: 'Connections',
    node: (name: string) => `Sessions of SFTP, and requests of HTTP and WebDAV that are being answered, on ${name}.`,
    none: 'Nobody is connected.',
    user: 'User',
    visitor: 'a visitor of a share',
    address: 'Address',
    protocol: 'By',
    since: 'Since',
    received: 'Received',
    sent: 'Sent',
    end: 'Disconnect',
    browsers: 'Signed-in browsers',
    browser: 'Browser',
    used: 'Last used',
    signOut: 'Sign out',
  },

  locks: {
    about:
      'Programs lock files by WebDAV while they edit them. A program that crashed leaves its lock until it expires.',
    none: 'Nothing is locked.',
    programs: 'Programs that use WebDAV',
    path: 'Path',
    deep: 'with everything below',
    user: 'User',
    scope: 'Kind',
    scopes: { exclusive: 'exclusive', shared: 'shared' },
    expires: 'Expires',
    break: 'Break',
  },

  downloads: {
    about:
      'Users with the permission “Download from URLs” have the server download files into a folder. These programs can do it, beside the server itself.',
    toolSaved: (name: string) => `The settings of ${name} are saved.`,
    testAndSave: (name: string) => `Test and save ${name}`,
  },

  index: {
    off: 'Search is off. Choose an index below: it is built when you save.',
    running: (count: number) => `Reading the tree: ${number(count)} names so far.`,
    names: (count: number) => `The index holds ${number(count)} names.`,
    lastRun: (time: string) => `Last run: ${time}.`,
    build: 'Build anew',
    update: 'Update',
    stop: 'Stop',
    clear: 'Clear',
  },

  log: { level: 'From level', empty: 'There are no lines of this level.' },

  about: {
    version: 'Version',
    node: 'Node.js',
    platform: 'System',
    started: 'Running since',
    data: 'Data folder',
    addresses: 'Addresses',
    api: 'Reference of the HTTP API',
  },

  start: {
    about: 'Three steps, each of which you can skip: a password, a storage, and your files as a drive.',
    password: 'Choose a password',
    passwordHint: 'Replace the password that was printed at the first start. You stay signed in here.',
    storage: 'Add a storage',
    storageHint:
      'The folder files in the data folder is already shown as the root. Add disks, servers and clouds beside it, now or later under Storages.',
    mount: 'Reach your files',
    done: 'Done',
    offer: 'This server is new:',
  },
}
