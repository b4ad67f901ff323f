/** How to reach the files from each system. */
export default {
  mount: {
    title: 'Reach your files as a drive',
    more: 'More programs, in the documentation',
    system: 'Your system',
    webdav: {
      windows: 'In Explorer, choose This PC, then Map network drive, and enter this address.',
      macos: 'In Finder, choose Go, then Connect to Server, and enter this address.',
      linux: 'In the file manager, choose Other Locations, and enter this address under Connect to Server.',
    },
    terminal: 'Or in a terminal:',
    davfs:
      'Or in a terminal, with the package davfs2. Run this once: without it, davfs2 lists no folders on Linux 6.16 and newer.',
    thenMount: 'Then mount:',
    unmount:
      'davfs2 uploads a file some seconds after it is closed. Unmount before you turn the computer off, so that every file is uploaded:',
    credentials: (user: string) =>
      `Sign in as ${user} with your password. With two-step verification, use an app password of your profile.`,
    windowsNeedsTls: 'Windows mounts WebDAV only by HTTPS. Put the server behind a proxy with TLS, or use SFTP.',
    sftp: 'In a terminal, enter this command, then your password, or with two-step verification an app password. With an SSH key in your profile, no password is asked.',
    sftpOff: 'SFTP is off on this server.',
    hostKeys: 'The server shows one of these fingerprints at the first connection:',
  },
}
