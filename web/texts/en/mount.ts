/** How to reach the files from each system. */
export default {
  mount: {
    title: 'Reach your files as a drive',
    more: 'More programs, in the documentation',
    system: 'Your system',
    systems: {
      windows: {
        name: 'Windows',
        webdav: 'In Explorer, choose This PC, then Map network drive, and enter this address.',
        commands: [
          { about: 'Or in a terminal:', command: (url: string, user: string) => `net use * ${url} /user:${user} *` },
        ],
      },
      macos: {
        name: 'macOS',
        webdav: 'In Finder, choose Go, then Connect to Server, and enter this address.',
        commands: [
          {
            about: 'Or in a terminal:',
            command: (url: string) => `mkdir -p ~/tidegate && mount_webdav -i ${url} ~/tidegate`,
          },
        ],
      },
      linux: {
        name: 'Linux',
        webdav: 'In the file manager, choose Other Locations, and enter this address under Connect to Server.',
        commands: [
          {
            about:
              'Or in a terminal, with the package davfs2. Run this once: without it, davfs2 lists no folders on Linux 6.16 and newer.',
            command: () => "echo 'buf_size 64' | sudo tee -a /etc/davfs2/davfs2.conf",
          },
          {
            about: 'Then mount:',
            command: (url: string) =>
              `mkdir -p ~/tidegate && sudo mount -t davfs -o uid=$(id -u),gid=$(id -g) ${url} ~/tidegate`,
          },
          {
            about:
              'davfs2 uploads a file some seconds after it is closed. Unmount before you turn the computer off, so that every file is uploaded:',
            command: () => 'sudo umount ~/tidegate',
          },
        ],
      },
    },
    credentials: (user: string) =>
      `Sign in as ${user} with your password. With two-step verification, use an app password of your profile.`,
    windowsNeedsTls: 'Windows mounts WebDAV only by HTTPS. Put the server behind a proxy with TLS, or use SFTP.',
    sftp: 'In a terminal, enter this command, then your password, or with two-step verification an app password. With an SSH key in your profile, no password is asked.',
    sftpOff: 'SFTP is off on this server.',
    hostKeys: 'The server shows one of these fingerprints at the first connection:',
  },
}
