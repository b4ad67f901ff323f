/** What each setting means, with its unit: told beside its value over the API, and in docs/settings.md. A setting needs a line here to be one. */
export const settingsHelp = {
  // site
  version: 'The version that runs; nobody changes it.',
  site_title: 'Name of the site, in the title of its pages.',
  announcement: 'Markdown that clients show to everybody, also the banner of SFTP. Empty: none.',
  pagination_type: 'How clients show long folders: all at once, page by page, or more on demand.',
  default_page_size: 'Entries on a page, for clients that show pages.',
  allow_indexed: 'Whether other instances may index this one.',
  allow_mounted: 'Whether other instances may mount this one as the guest.',
  robots_txt: 'What /robots.txt answers.',
  // style
  logo: 'URL of the picture of the site: the first line for light pages, the last for dark ones. Empty: none.',
  favicon: 'URL of the icon of the site. Empty: none.',
  main_color: 'Colour of buttons and links, as in CSS.',
  home_icon: 'Text or emoji that stands for the root of the tree.',
  share_icon: 'Text or emoji that stands for shares.',
  home_container: 'How wide the pages are: at most 980 pixels, or as wide as the window.',
  settings_layout: 'How the pages of settings are laid out.',
  hide_storage_details: 'Listings do not tell how full storages are. Guests are never told.',
  hide_storage_details_in_manage_page: 'The list of storages does not tell admins how full they are.',
  show_disk_usage_in_plain_text: 'How full a storage is is shown as text in place of a bar.',
  // preview
  text_types: 'Extensions of files that are shown as text, with commas between; they may be read through /p.',
  audio_types: 'Extensions of audio files, with commas between.',
  video_types: 'Extensions of videos, with commas between.',
  image_types: 'Extensions of pictures, with commas between.',
  proxy_types:
    'Extensions, with commas between, of files that go through the gateway where clients are sent to the backend else.',
  proxy_ignore_headers: 'Headers of a client, with commas between, that are not passed on to backends.',
  external_previews:
    'JSON: for extensions or a /regex/, programs that open them, as names and URLs with $url, $durl and $name in them.',
  iframe_previews: 'JSON of the same form: pages that show them in a frame.',
  audio_cover: 'URL of the picture beside audio files without one. Empty: none.',
  audio_autoplay: 'Audio files start to play when they are opened.',
  video_autoplay: 'Videos start to play when they are opened.',
  preview_download_by_default: 'Files open with the download in place of a preview.',
  preview_archives_by_default: 'Archives open with what is in them.',
  share_preview_download_by_default: 'Files of shares open with the download in place of a preview.',
  share_preview_archives_by_default: 'Archives of shares open with what is in them.',
  readme_autorender: 'The README.md of a folder is shown below it.',
  filter_readme_scripts: 'Scripts in a shown README.md are left out.',
  non_efs_zip_encoding: 'Encoding of names in ZIP archives that do not say theirs.',
  // global
  hide_files:
    'Names that clients do not show, one /regex/flags a line. The server tells of them: to keep them from users, make a folder rule.',
  package_download: 'Clients offer to download folders as one archive.',
  customize_head: 'HTML for the head of the web client, but for its admin pages.',
  customize_body: 'HTML for the end of the body of the web client, but for its admin pages.',
  link_expiration: 'Hours that the signature of a link holds. 0: for ever.',
  sign_all: 'Every link to a file needs a signature. Off: only where a folder rule hides, closes or limits.',
  privacy_regs: 'Regular expressions, one a line; what they match in the message of a refusal is told as asterisks.',
  ocr_api: 'URL of a service that reads text in pictures. Empty: none.',
  filename_char_mapping: 'JSON object: what stands in names from backends, and what is shown in its place.',
  forward_direct_link_params: 'The query of a link goes along where the client is sent on to the backend.',
  ignore_direct_link_params: 'Parameters, with commas between, that do not go along.',
  webauthn_login_enabled: 'Clients offer to sign in with a passkey.',
  share_preview: 'Files of shares can be previewed.',
  share_archive_preview: 'Archives of shares can be looked into.',
  share_force_proxy: 'Files of shares go through the gateway.',
  share_summary_content: 'Template of the text that goes with a share.',
  handle_hook_after_writing: 'Whether the search index follows writes; here it always does.',
  handle_hook_rate_limit: 'Writes a second that it follows at most. 0: all.',
  ignore_system_files: 'Refuse .DS_Store, desktop.ini and their like.',
  // single
  token:
    'The permanent token: it signs in as the admin, and signs links. At least 32 visible ASCII characters without blanks. Empty makes a new one, and old links end.',
  index_progress: 'JSON: how far the search index is. The server writes it.',
  // index
  search_index: 'What searches read: database, or none for no search.',
  auto_update_index: 'A folder that somebody reads afresh is compared with the index.',
  ignore_paths: 'One absolute path a line; what lies below is not indexed.',
  max_index_depth: 'Folders deeper than this are not indexed.',
  // singleSignOn
  sso_login_enabled: 'Clients offer to sign in by another service.',
  sso_login_platform: 'Which service that is.',
  sso_client_id: 'The id under which the service knows this site.',
  sso_client_secret: 'The secret that goes with that id.',
  sso_oidc_username_key: 'Claim of the service that holds the name of the user.',
  sso_organization_name: 'Organization, for Casdoor.',
  sso_application_name: 'Application, for Casdoor.',
  sso_endpoint_name: 'URL of the service, for Casdoor and OIDC.',
  sso_jwt_public_key: 'Public key of the tokens of the service, for Casdoor.',
  sso_extra_scopes: 'Scopes that are asked for beside the usual ones, with spaces between.',
  sso_auto_register: 'Who signs in for the first time gets an account.',
  sso_default_dir: 'Base path of such accounts.',
  sso_default_permission: 'Permissions of such accounts, as the sum of their bits.',
  sso_compatibility_mode: 'The sign-in comes back by a redirect in place of a window.',
  // ldap
  ldap_login_enabled: 'Clients offer to sign in by LDAP.',
  ldap_server: 'URL of the server: ldap:// or ldaps://.',
  ldap_skip_tls_verify: 'The certificate of the server is not verified.',
  ldap_manager_dn: 'Name of the account that searches for users.',
  ldap_manager_password: 'Password of that account.',
  ldap_user_search_base: 'Where in the directory users are searched.',
  ldap_user_search_filter: 'What finds a user; %s stands for the name.',
  ldap_default_dir: 'Base path of accounts that are made at the first sign-in.',
  ldap_default_permission: 'Permissions of such accounts, as the sum of their bits.',
  ldap_login_tips: 'Text beside the sign-in by LDAP.',
  // s3
  s3_access_key_id: 'Access key of the S3 door.',
  s3_secret_access_key: 'Secret key of the S3 door.',
  s3_buckets: 'JSON list of the buckets of the S3 door.',
  // ftp
  ftp_public_host: 'Address that the FTP door names for passive connections.',
  ftp_pasv_port_map: 'Ports of its passive connections.',
  ftp_mandatory_tls: 'The FTP door takes no connection without TLS.',
  ftp_implicit_tls: 'TLS starts with the connection.',
  ftp_tls_private_key_path: 'File of the private key for TLS.',
  ftp_tls_public_cert_path: 'File of the certificate for TLS.',
  sftp_disable_password_login: 'SFTP takes keys only.',
  sftp_keep_partial_uploads:
    'An upload to a new name whose connection breaks stays there, as far as it came, to be resumed. Old files are never torn.',
  // traffic
  offline_download_task_threads_num: 'Offline downloads that run at once.',
  offline_download_transfer_task_threads_num: 'Tasks that run at once of those that store what programs downloaded.',
  upload_task_threads_num: 'Uploads as tasks that run at once.',
  copy_task_threads_num: 'Copies as tasks that run at once.',
  move_task_threads_num: 'Moves as tasks that run at once.',
  decompress_download_task_threads_num: 'Archives that are fetched at once, to be unpacked.',
  decompress_upload_task_threads_num: 'Unpacked archives that are stored at once.',
  max_client_download_speed: 'KiB a second to all clients together, at every door; 0 or less: no limit.',
  max_client_upload_speed: 'KiB a second from all clients together, at every door; 0 or less: no limit.',
  max_server_download_speed: 'KiB a second from all storages behind a network together; 0 or less: no limit.',
  max_server_upload_speed: 'KiB a second to all storages behind a network together; 0 or less: no limit.',
  multipart_enabled: 'Clients may offer uploads in parts.',
  multipart_chunk_size: 'Megabytes of one part of a multipart upload.',
  finished_tasks_days: 'Days that finished tasks are listed. Negative: for ever.',
  transfer_files_at_once: 'Files that all copies and moves together read and write at once.',
  spool_size_limit:
    'Megabytes of uploads and open files that wait on the local disk for their storage; what programs download, and what is kept of it, ' +
    'may take what these leave. Negative: no limit but the disk.',
  egress_networks:
    'Networks beside the public internet that may be connected to where a user or a redirect of a server names the host, such as ' +
    '192.168.1.0/24; one a line.',
  egress_proxy:
    'HOST:PORT where the gateway listens for aria2, and connects to servers in its place. Empty: a port of 127.0.0.1, for an aria2 on ' +
    'this machine, and none for one elsewhere; off: none.',
  offline_download_size_limit: 'Megabytes that one offline download may have. Negative: no limit.',
  offline_download_temp_dir:
    'Folder of this machine which aria2 and qBittorrent write to and the gateway reads, by the same path for all of them. Empty: temp ' +
    'in the data folder.',
  // offlineDownload
  aria2_uri: 'URL of the JSON-RPC interface of aria2.',
  aria2_secret: 'Its secret (--rpc-secret). Empty: none.',
  qbittorrent_url: 'URL of the web interface of qBittorrent, with user name and password.',
  qbittorrent_seedtime:
    'Minutes that a torrent is given to others once it is whole. Negative: it is never removed there, nor are its files.',
  transmission_uri: 'URL of the RPC interface of Transmission.',
  transmission_seedtime: 'Minutes that a torrent is given to others once it is whole.',
} as const

export type SettingKey = keyof typeof settingsHelp
