/** Users, groups, their rights, and folder rules. */
import { Permission, Right, Role } from '../../api/schema.ts'
import { list } from '../format.ts'

export default {
  users: {
    about:
      'Enable the guest to let everybody browse without signing in. With files, the administrator may do what the permissions of the account allow, like every user. Administration needs no permissions.',
    add: 'Add a user',
    editTitle: (name: string) => `Edit ${name}`,
    endTwoStep: 'Turn off two-step verification',
    twoStepEnded: (name: string) => `${name} signs in without a one-time code.`,
    isDisabled: 'Disabled: cannot sign in',
    edit: 'Edit',
    name: 'Name',
    role: 'Role',
    roles: { [Role.general]: 'user', [Role.guest]: 'guest', [Role.admin]: 'administrator' },
    base: 'Base folder',
    groups: 'Groups',
    grants: 'Rights in folders',
    grantedOnly: 'Sees only what is granted',
    grantedOnlyHint:
      'Without a grant, such a user sees an empty folder. The permissions below open protocols and functions, and no folder.',
    outsideBase: (base: string) => `This grant has no effect: it is outside the base folder, ${base}.`,
    notForAdmins: 'Grants do not apply to administrators.',
    state: 'State',
    disabled: 'disabled',
    enabled: 'enabled',
    allowFrom: 'Only from these networks',
    allowFromHint: 'One address or network in each line, such as 192.0.2.7 or 10.0.0.0/8. Empty: from everywhere.',
    expires: 'Last day',
    ended: 'ended',
    password: 'Password',
    newPassword: 'New password (empty: unchanged)',
    permissions: 'Permissions',
    permissionTexts: {
      [Permission.seeHidden]: 'See hidden files',
      [Permission.skipPasswords]: 'Open folders without their password',
      [Permission.offlineDownload]: 'Download from URLs',
      [Permission.write]: 'Upload and create folders',
      [Permission.rename]: 'Rename',
      [Permission.move]: 'Move',
      [Permission.copy]: 'Copy',
      [Permission.remove]: 'Delete',
      [Permission.webdavRead]: 'Read by WebDAV',
      [Permission.webdavManage]: 'Change by WebDAV',
      [Permission.sftpRead]: 'Read by SFTP',
      [Permission.sftpManage]: 'Change by SFTP',
      [Permission.share]: 'Share with people who have no account',
      [Permission.customShareId]: 'Choose the links of shares',
      // The others have no effect.
    } satisfies Record<Exclude<Permission, Permission.readArchives | Permission.decompress>, string>,
    deleteTitle: 'Delete user',
    deleteWarning: (name: string) => `${name} can no longer sign in. Files are not deleted.`,
  },

  groups: {
    about:
      'The members of a group have its permissions and its grants besides their own. A change is in force at once, and signs nobody out.',
    none: 'There is no group yet. With one you give several people the same rights in the same folders.',
    add: 'Add a group',
    edit: 'Edit',
    editTitle: (name: string) => `Edit ${name}`,
    name: 'Name',
    description: 'Description',
    admin: 'Its members are administrators',
    requireProvider: 'Its members sign in by single sign-on or a directory only',
    requireTwoStep: 'Its members need two-step verification',
    requireTwoStepHint:
      'Whoever has not set it up can sign in here only to do so, and neither by WebDAV nor by SFTP until then.',
    permissions: 'Permissions of its members',
    members: 'Members',
    gives: 'Permissions',
    administration: 'administration',
    grants: 'Rights in folders',
    outsideBase: (names: string) => `This grant has no effect for ${names}: it is outside of the base folder.`,
    notForAdmins: 'Grants do not apply to administrators: these have no effect for the members.',
    deleteTitle: 'Delete group',
    deleteWarning: (name: string) =>
      `The members of ${name} lose its permissions and grants, and what it denies them is no longer denied. The accounts stay.`,
  },

  grants: {
    about:
      'A grant holds for a folder and everything in it. Further down, the grant of a folder there decides. What no grant mentions, the permissions of the user decide.',
    add: 'Add a grant',
    of: (path: string) => (path === '' ? 'New grant' : path),
    path: 'Folder or file',
    rights: 'Rights',
    presets: {
      look: 'See and read',
      add: 'See, read and add',
      change: 'See, read, add and change',
      everything: 'Everything',
      nothing: 'No access (hidden)',
      custom: 'Custom',
    },
    presetHints: {
      look: 'See names, and read and download files. All else is left open.',
      add: 'Also upload files and make folders. Adding includes replacing: an upload may take the place of a file of the same name.',
      change:
        'Also rename, move, copy and delete what is in the folder. The folder itself stays, unless the same is granted above it.',
      everything: 'Also share with people who have no account.',
      nothing: 'The folder and everything in it do not exist for these people, unless a grant below says otherwise.',
    },
    custom: (allowed: readonly string[], denied: readonly string[]): string =>
      [
        allowed.length > 0 && `Allowed: ${list(allowed)}.`,
        denied.length > 0 && `Denied: ${list(denied)}.`,
        allowed.length + denied.length === 0 && 'This grant says nothing yet.',
      ]
        .filter(Boolean)
        .join(' '),
    switches: 'Choose rights one by one',
    right: 'Right',
    choices: { allow: 'Allowed', deny: 'Denied', unmentioned: 'Left open' },
    rightTexts: {
      [Right.see]: 'See names, sizes and times',
      [Right.read]: 'Read and download',
      [Right.write]: 'Add, replace and edit',
      [Right.rename]: 'Rename',
      [Right.move]: 'Move',
      [Right.copy]: 'Copy',
      [Right.remove]: 'Delete',
      [Right.share]: 'Share',
    },
    switchesHint: 'Whoever is allowed anything also sees. Whoever is denied to see can do nothing.',
    linksStay:
      'Links to files that somebody has already made stay valid: whoever has one can still open the file. Links end by themselves only if you set “Hours until links expire”.',
    nothingThere: (path: string) =>
      `There is no ${path}. The grant has no effect until there is: check the spelling. Save again to keep it.`,
  },

  explain: {
    about:
      'Choose who, where and what: the server tells whether it is allowed, and why. Nothing is done with the file.',
    user: 'User',
    path: 'Folder or file',
    action: 'What',
    protocol: 'By',
    protocols: { http: 'This page or another program of the HTTP API', webdav: 'WebDAV', sftp: 'SFTP' },
    address: 'From the address (empty: from any)',
    ask: 'Check',
    allowed: 'Allowed',
    refused: 'Not allowed',
    decidedBy: 'Decided by: ',
    steps: 'Step by step',
    refusedHere: '(refused here)',
    notes: 'Also worth knowing',
    here: 'See who may do what here',
  },

  /** What the steps of a decision have found, and what else there is to know. */
  findings: {
    user: (name: string, path: string) => `the grant of ${name} at ${path}`,
    group: (name: string, path: string) => `the grant of the group ${name} at ${path}`,
    usable: 'The account can be used.',
    protocolOfAll: (protocol: string) => `Every user may use this: ${protocol}.`,
    protocolAllowed: (protocol: string, permissions: string) =>
      `${protocol} needs “${permissions}”, which the user has.`,
    protocolRefused: (protocol: string, permissions: string) =>
      `${protocol} needs “${permissions}”, which the user lacks.`,
    within: (base: string) => `The path is in the base folder, ${base}.`,
    outside: (base: string) => `The path is outside the base folder, ${base}.`,
    because: (why: string, finding: string) => `${why}: ${finding}.`,
    unmentioned: (right: string) => `No grant mentions “${right}”`,
    ofAdmin: 'No grant applies to an administrator',
    seen: 'the path is seen',
    seesGranted: 'the user sees only what is granted',
    doesGranted: 'the user may only do what is granted',
    notNeeded: 'no permission is needed',
    lacks: (permissions: string) => `the user lacks the permission “${permissions}”`,
    has: (permissions: string) => `the user has the permission “${permissions}”`,
    hasByGroups: (permissions: string, groups: string) =>
      `the user has the permission “${permissions}” by groups: ${groups}`,
    everybodyWrites: (path: string) => `the rule at ${path} lets everybody write`,
    notSeen: (grants: string) => `For this user the path does not exist: to see it is denied by ${grants}.`,
    wayTo: (grants: string) => `It is seen as the way to ${grants}.`,
    way: 'It is seen as the way to what is granted.',
    onlyWayBy: (grants: string) => `Only the way is seen, because to see is denied by ${grants}.`,
    onlyWay: 'Only the way is seen, because no grant allows to see.',
    allowed: (right: string, grants: string) => `“${right}” is allowed by ${grants}.`,
    denied: (right: string, grants: string) => `“${right}” is denied by ${grants}.`,
    folderOfGrant: (right: string, grants: string) =>
      `“${right}” is allowed by ${grants}, but only below. For the folder itself it must be allowed above.`,
    hides: (path: string) => `The rule at ${path} hides the name.`,
    hidesNot: 'No rule hides the name.',
    otherReaders: (path: string) => `The rule at ${path} lets only others read.`,
    mayRead: 'No rule excludes this reader.',
    needsPassword: (path: string) => `The rule at ${path} requires a password.`,
    needsNone: 'No folder password is required.',
    otherWriters: (path: string) => `The rule at ${path} lets only others write.`,
    mayWrite: 'No rule excludes this writer.',
    networks: (networks: string) =>
      `No address was entered, so it was not asked whether the user comes from ${networks}.`,
    folderRefused: (right: string, path: string) =>
      `For a folder here, “${right}” is refused: the grants at ${path} do not allow it there.`,
    folderSeen: 'A folder here is seen: the rule that refuses is about files.',
    outsideBase: (grants: string, base: string) => `Outside the base folder ${base}, and without effect: ${grants}.`,
    spellings: (paths: string) => `Where the storage ignores case, the grants at ${paths} are of one path.`,
    elsewhere: (rights: string, grants: string, storage: string, path: string) =>
      `“${rights}” is denied by ${grants}, but the storage ${storage} shows the same at ${path}.`,
  },

  rules: {
    about: 'A rule applies to a folder, and to what is below it where you say so.',
    add: 'Add a rule',
    edit: 'Edit',
    path: 'Folder',
    effects: 'What it sets',
    password: 'Password',
    passwordHint:
      'Over WebDAV and SFTP, only users with “Open folders without their password” reach the folder. Signed links to its files need no password.',
    hide: 'Hidden names',
    hideHint: 'Regular expressions, one in each line.',
    header: 'Text above the files',
    readme: 'Text below the files',
    write: 'Writing',
    everybodyWrites: 'Everybody who sees the folder may upload',
    readers: 'Only these users may read',
    writers: 'Only these users may write',
    below: 'Also below this folder',
    noFolder: (path: string) =>
      `There is no folder ${path}. The rule has no effect until there is one: check the spelling. Save again to keep it.`,
    deleteTitle: 'Delete rule',
    deleteWarning: (path: string) => `What the rule sets for ${path} no longer applies.`,
  },
}
