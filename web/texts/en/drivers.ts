/** The drivers of disks, servers and other storages, and the fields of every storage. The rest is in `clouds.ts`. */

const username = { label: 'User name', help: 'The account on that server, not one of this gateway.' }
const password = { label: 'Password', help: 'The password of that account.' }
const rootFolder = {
  label: 'Folder on the server',
  help: 'What the storage shows, as the account sees it. / is everything.',
}
const anyCertificate = {
  label: 'Trust any certificate',
  help: 'Whoever is between you and the server can then read and change everything. Only for tests.',
}
const gateway = {
  url: {
    label: 'Address of the other gateway',
    help: 'What you open in a browser there, such as https://files.example.org.',
  },
  username: { label: 'User name', help: 'An account of the other gateway. Empty, and no token: its guest.' },
  password: { label: 'Password', help: 'The password of that account. With two-step verification, use a token.' },
  root_folder_path: { label: 'Folder of the other gateway', help: 'What the storage shows. / is everything.' },
  token: {
    label: 'Token',
    help: 'Used instead of the password: for example the permanent token in the settings of the other gateway.',
  },
  meta_password: { label: 'Password of folders', help: 'If the other gateway asks for one before it shows a folder.' },
  pass_ip_to_upsteam: {
    label: 'Pass on the address of clients',
    help: 'The other gateway learns who will download. Its backends may bind links to that address.',
  },
  pass_ua_to_upsteam: {
    label: 'Pass on the program of clients',
    help: 'The other gateway learns the User-Agent of who will download. Its backends may bind links to it.',
  },
}

export default {
  drivers: {
    Local: {
      about: 'Shows a folder on this machine: a disk, a USB drive or what else is mounted here.',
      fields: {
        root_folder_path: {
          label: 'Folder on this machine',
          help: 'Its path, such as /srv/files. It must exist, and the service must be allowed to read it.',
        },
        recycle_bin_path: {
          label: 'Recycle bin',
          help: 'A folder on this machine to which removed files are moved. “delete permanently”: none.',
        },
        thumbnail: {
          label: 'Thumbnails',
          help: 'Make small pictures of images and videos, if sharp and ffmpeg are installed on this machine.',
        },
        thumb_cache_folder: {
          label: 'Folder for thumbnails',
          help: 'Where they are kept on this machine, outside of the folder above, up to 1 GiB. Empty: nowhere.',
        },
        thumb_concurrency: { label: 'Thumbnails at once', help: 'How many are made at the same time, at most 64.' },
        video_thumb_pos: {
          label: 'Moment in videos',
          help: 'Where the thumbnail is taken: seconds, or a share of the length such as 20%.',
        },
        directory_size: {
          label: 'Sizes of folders',
          help: 'Show what each folder holds. Every listing then reads all folders below it.',
        },
        show_hidden: { label: 'Show hidden files', help: 'Those whose names begin with a dot.' },
        mkdir_perm: {
          label: 'Mode of new folders',
          help: 'In octal, as for chmod, such as 755. The umask of the service still applies.',
        },
        sync: {
          label: 'Survive power failures',
          help: 'An upload succeeds only when it is on the medium. This is slower.',
        },
      },
    },
    FTP: {
      about: 'Shows a folder of an FTP server, with or without encryption.',
      fields: {
        address: {
          label: 'Address',
          help: 'Host and port, such as ftp.example.org:21. With ftpes:// or ftps:// before it, it is encrypted.',
        },
        username,
        password,
        root_folder_path: rootFolder,
        encoding: {
          label: 'Encoding of names',
          help: 'If names look wrong: GBK or Shift_JIS, for example. Empty: UTF-8.',
        },
        cwd_list: {
          label: 'Enter folders to list them',
          help: 'For old servers that show the wrong folder, or none.',
        },
        ca_certificate: {
          label: 'Certificate to trust',
          help: 'That of the server or of its authority, in PEM form, if this system does not trust it already.',
        },
        tls_insecure_skip_verify: anyCertificate,
      },
    },
    SFTP: {
      about: 'Shows a folder of a server that you reach by SSH.',
      fields: {
        address: { label: 'Address', help: 'Host and port, such as server.example.org:22.' },
        username,
        password: { label: 'Password', help: 'The password of that account. Empty if a key is used.' },
        private_key: {
          label: 'Private key',
          help: 'The whole text of the file, often ~/.ssh/id_ed25519. It is tried before the password.',
        },
        root_folder_path: rootFolder,
        passphrase: { label: 'Passphrase of the key', help: 'If the private key is protected by one.' },
        host_key: {
          label: 'Fingerprint of the server',
          help: 'SHA256:…, as ssh-keygen -l shows it there. Empty: the first one is trusted and remembered.',
        },
        ignore_symlink_error: {
          label: 'Show broken links',
          help: 'Symbolic links that lead nowhere are listed too.',
        },
      },
    },
    SMB: {
      about: 'Shows a shared folder of Windows, of a NAS or of Samba.',
      fields: {
        address: {
          label: 'Address',
          help: 'The name or the address of the machine, such as nas.local or 192.168.1.2.',
        },
        share_name: { label: 'Name of the share', help: 'Its first part after the machine: of \\\\nas\\films, films.' },
        username: { label: 'User name', help: 'For an account of a domain: DOMAIN\\user or user@domain.' },
        password: { label: 'Password', help: 'The password of that account. Empty if the share is open to guests.' },
        root_folder_path: { label: 'Folder of the share', help: 'What the storage shows. A dot is the whole share.' },
        protection: {
          label: 'Protection in transit',
          help: 'What the server requires is always used. “Signed” prevents changes, “Encrypted” also reading.',
        },
      },
    },
    WebDav: {
      about: 'Shows a folder of a WebDAV server, such as Nextcloud or a NAS.',
      fields: {
        address: {
          label: 'Address',
          help: 'The WebDAV address from the settings of the server, such as https://example.org/dav.',
        },
        username,
        password: {
          label: 'Password',
          help: 'The password of that account. With two-step verification, make an app password there.',
        },
        root_folder_path: { label: 'Folder on the server', help: 'What the storage shows, below the address.' },
        vendor: {
          label: 'Kind of server',
          help: 'Leave it at “Any other”. The sign-in of SharePoint is not supported.',
        },
        tls_insecure_skip_verify: anyCertificate,
      },
    },
    S3: {
      about: 'Shows a bucket of Amazon S3 or of a service that speaks its protocol.',
      fields: {
        endpoint: {
          label: 'Address of the service',
          help: 'From its documentation, such as https://s3.eu-central-1.amazonaws.com.',
        },
        bucket: { label: 'Bucket', help: 'Its name, as the web page of the service lists it.' },
        access_key_id: {
          label: 'Access key ID',
          help: 'The public half of an access key that you make at the service.',
        },
        secret_access_key: {
          label: 'Secret access key',
          help: 'The secret half, which the service shows once when it makes the key.',
        },
        root_folder_path: { label: 'Folder of the bucket', help: 'What the storage shows. / is the whole bucket.' },
        region: { label: 'Region', help: 'Such as eu-central-1. Many services other than Amazon take any.' },
        session_token: { label: 'Session token', help: 'The third part of temporary access keys.' },
        force_path_style: {
          label: 'Bucket in the path',
          help: 'For services that have no host name for each bucket, such as MinIO.',
        },
        custom_host: {
          label: 'Public host of files',
          help: 'A host name of your own by which clients download, instead of that of the service.',
        },
        enable_custom_host_presign: {
          label: 'Sign addresses of that host',
          help: 'If the bucket is not open to everybody there.',
        },
        remove_bucket: {
          label: 'No bucket in these addresses',
          help: 'If the public host stands for this bucket alone.',
        },
        sign_url_expire: { label: 'Validity of addresses', help: 'Hours for which clients can use one, at most 168.' },
        placeholder: {
          label: 'Name of placeholders',
          help: 'The hidden empty file that keeps an empty folder. Empty: .openlist.',
        },
        list_object_version: { label: 'Version of listings', help: 'v2 only if the service asks for it.' },
        add_filename_to_disposition: {
          label: 'Names for old clients',
          help: 'Addresses of files also carry the name in plain letters.',
        },
        user_agent: {
          label: 'Name of the client',
          help: 'The User-Agent of requests, for services that want their own.',
        },
        keep_times: {
          label: 'Times of the files',
          help: 'Show those that clients have set, not those of the uploads. Listings become slower.',
        },
      },
    },
    Rclone: {
      about: 'Shows a remote of rclone: Google Drive, OneDrive, Dropbox and all others that rclone knows.',
      fields: {
        remote: {
          label: 'Remote',
          help: 'A name that “rclone listremotes” shows, with a colon, and a folder if you like: gdrive:films.',
        },
        config_path: {
          label: 'Configuration file',
          help: 'The one that “rclone config file” shows. Empty: that of the user who runs this service.',
        },
        config_password: { label: 'Password of that file', help: 'If the configuration is encrypted.' },
        program_path: { label: 'Program', help: 'Where rclone is on this machine, if it is not found by itself.' },
        flags: { label: 'Flags', help: 'Such as --bwlimit=10M, one on each line. The documentation lists them.' },
      },
    },
    OpenList: {
      about: 'Shows the files of another gateway: OpenList, or another Tidegate.',
      fields: {
        ...gateway,
        pass_refresh_flag_to_upsteam: {
          label: 'Pass on refreshing',
          help: 'A folder that is read anew here is read anew there too, if the account may do that.',
        },
      },
    },
    'AList V3': { about: 'Shows the files of another gateway: AList 3.', fields: gateway },
    Alias: {
      about: 'Shows several folders of other storages as one.',
      fields: {
        paths: {
          label: 'Folders',
          help: 'One on each line, such as /disk/films. With a name before it (films:/disk/films), folders of one name are merged.',
        },
        write_conflict_policy: {
          label: 'Where folders are changed',
          help: 'New folders, and what is renamed or removed, if several of the folders above have it.',
        },
        put_conflict_policy: {
          label: 'Where files are stored',
          help: 'In which of the folders above new files are put. Files that exist stay where they are.',
        },
        read_conflict_policy: {
          label: 'Which copy is read',
          help: 'If several folders have a file: the first one, or any of the same size.',
        },
        file_consistency_check: {
          label: 'Compare contents',
          help: 'Files are copies of each other only if their checksums are equal too.',
        },
        details_pass_through: {
          label: 'Show the free space',
          help: 'That of the storage below, if there is one folder.',
        },
      },
    },
    Crypt: {
      about: 'Encrypts what is stored in a folder of another storage, in the format of rclone.',
      fields: {
        remote_path: { label: 'Folder', help: 'The folder of another storage that holds the encrypted files.' },
        password: {
          label: 'Password',
          help: 'Encrypts the files. Keep it: without it nobody can read them, and it cannot be changed later.',
        },
        salt: { label: 'Second password', help: 'The “salt” of rclone. It may be empty; keep it as well.' },
        filename_encryption: {
          label: 'Names',
          help: 'Whether the names of files are encrypted. “Hard to read” protects them little.',
        },
        directory_name_encryption: {
          label: 'Names of folders',
          help: 'Whether they are encrypted too. Without encrypted names it does nothing.',
        },
        filename_encoding: {
          label: 'Letters of encrypted names',
          help: 'base32 if the storage below does not distinguish capitals. rclone itself uses base32.',
        },
        encrypted_suffix: { label: 'Suffix of files', help: 'Added to names that are not encrypted, such as .bin.' },
        thumbnail: {
          label: 'Stored thumbnails',
          help: 'Show those that other programs have put into folders named .thumbnails.',
        },
        show_hidden: { label: 'Show hidden files', help: 'Those whose names begin with a dot.' },
      },
    },
    Memory: {
      about: 'Keeps files in the memory of the server until the storage stops. For tests.',
      fields: {
        size_limit: { label: 'Size', help: 'How many bytes all files may have together. 0: as many as fit.' },
        case_sensitive: {
          label: 'Distinguish capitals',
          help: 'Off: a.txt and A.txt are the same file, as on Windows.',
        },
      },
    },
    Virtual: {
      about: 'Makes up files and folders that can only be read. For tests and demonstrations.',
      fields: {
        num_file: { label: 'Files', help: 'How many each folder has.' },
        num_folder: { label: 'Folders', help: 'How many each folder has, two levels deep.' },
        min_file_size: { label: 'Smallest file', help: 'In bytes.' },
        max_file_size: { label: 'Largest file', help: 'In bytes. Files are smaller than this.' },
        root_folder_path: { label: 'Any text', help: 'With another text, other files are made up.' },
      },
    },
  },

  storageFields: {
    mount_path: {
      label: 'Mount path',
      help: 'Where people find it in Tidegate, such as /films. It need not exist before.',
    },
    order: { label: 'Order', help: 'Storages with smaller numbers are listed first.' },
    remark: { label: 'Remark', help: 'For administrators. Nobody else sees it.' },
    cache_expiration: {
      label: 'Minutes until listings are read anew',
      help: 'How late changes by other programs are seen. 0: each listing asks the storage.',
    },
    custom_cache_policies: {
      label: 'Other minutes for single folders',
      help: 'Lines of pattern:minutes, such as /news/**:1.',
    },
    web_proxy: {
      label: 'Send downloads through this server',
      help: 'Off: browsers download from the storage itself, which is faster and shows its address.',
    },
    webdav_policy: {
      label: 'Downloads by WebDAV',
      help: 'From where clients get the files. The address of the download proxy is below.',
    },
    proxy_range: { label: 'Proxy ranges', help: 'For other gateways: here it does nothing.' },
    down_proxy_url: {
      label: 'Address of a download proxy',
      help: 'A server of your own that sends the files, such as https://proxy.example.org. Empty: none.',
    },
    disable_proxy_sign: { label: 'No signature for the proxy', help: 'If your proxy does not check signatures.' },
    order_by: { label: 'Sort by', help: 'How folders are sorted for clients that do not sort. Empty: as it comes.' },
    order_direction: { label: 'Direction', help: 'Upwards is from A to Z, or from small to large.' },
    extract_folder: { label: 'Folders', help: 'Where they stand in a listing. Empty: among the files.' },
    disable_index: { label: 'Leave out of the search', help: 'Its files are not found by searching.' },
    enable_sign: { label: 'Sign links', help: 'Links to its files need a signature, and end at some time.' },
  },
}
