/**
 * The description of each setting, with its unit. Returned by the API with the value, and shown in docs/settings.md.
 */
export const settingsHelp = {
  // site
  version: 'The running version; read-only.',
  site_title: 'Name of the site, in the title of its pages.',
  announcement: 'Markdown that clients show to all users, also the banner of SFTP. Empty: none.',
  pagination_type: 'How clients show long folders: as one list, in pages, or loading more on demand.',
  default_page_size: 'Entries per page, for clients that show pages.',
  allow_indexed: 'Whether other instances may index this one.',
  allow_mounted: 'Whether other instances may mount this one as the guest.',
  robots_txt: 'Content of /robots.txt.',
  // style
  logo: 'URL of the logo: the first line for light pages, the last for dark ones. Empty: none.',
  favicon: 'URL of the icon of the site. Empty: none.',
  main_color: 'Color of buttons and links, as in CSS.',
  home_icon: 'Text or emoji for the root of the tree.',
  share_icon: 'Text or emoji for shares.',
  home_container: 'Width of the pages: at most 980 pixels, or the width of the window.',
  settings_layout: 'Layout of the settings pages.',
  hide_storage_details: 'Listings do not include the disk usage of storages. Guests never get it.',
  hide_storage_details_in_manage_page: 'The list of storages for admins does not include their disk usage.',
  show_disk_usage_in_plain_text: 'The disk usage of a storage is shown as text instead of a bar.',
  // preview
  text_types: 'Extensions of files that are shown as text, separated by commas; they may be read through /p.',
  audio_types: 'Extensions of audio files, separated by commas.',
  video_types: 'Extensions of videos, separated by commas.',
  image_types: 'Extensions of images, separated by commas.',
  proxy_types:
    'Extensions, separated by commas, of files that the gateway sends itself instead of redirecting clients to the backend.',
  proxy_ignore_headers: 'Request headers of clients, separated by commas, that are not forwarded to backends.',
  external_previews:
    'JSON: for extensions or a /regex/, the external programs that open the files, as names and URLs with $url, $durl and $name.',
  iframe_previews: 'JSON of the same form: web pages that show the files in a frame.',
  audio_cover: 'URL of the image for audio files without a cover. Empty: none.',
  audio_autoplay: 'Audio files start playing when they are opened.',
  video_autoplay: 'Videos start playing when they are opened.',
  preview_download_by_default: 'Opening a file shows the download page instead of a preview.',
  preview_archives_by_default: 'Opening an archive shows its contents.',
  share_preview_download_by_default: 'Opening a file of a share shows the download page instead of a preview.',
  share_preview_archives_by_default: 'Opening an archive of a share shows its contents.',
  readme_autorender: 'The README.md of a folder is shown below its listing.',
  filter_readme_scripts: 'Scripts in a README.md are removed when it is shown.',
  non_efs_zip_encoding: 'Encoding of the names in ZIP archives that do not declare it.',
  // global
  hide_files:
    'Names that clients do not show, one /regex/flags per line. The server still lists them: to hide files from users, use a folder rule.',
  package_download: 'Several files and folders can be downloaded as one archive.',
  customize_head: 'HTML for the head of the web client, except its admin pages.',
  customize_body: 'HTML for the end of the body of the web client, except its admin pages.',
  link_expiration: 'Hours until a signed URL expires. 0: never.',
  sign_all: 'Every download URL needs a signature. Off: only where a storage option or a folder rule requires one.',
  privacy_regs: 'Regular expressions, one per line; matching parts of error messages are replaced with asterisks.',
  ocr_api: 'URL of a service for text recognition in images. Empty: none.',
  filename_char_mapping: 'JSON object: texts in names from backends, and their replacements in listings.',
  forward_direct_link_params: 'Query parameters of a download URL are added to the direct URL of the backend.',
  ignore_direct_link_params: 'Query parameters, separated by commas, that are not added.',
  webauthn_login_enabled: 'Clients offer to sign in with a passkey.',
  share_preview: 'Files of shares can be previewed.',
  share_archive_preview: 'Archives of shares can be browsed.',
  share_force_proxy: 'Files of shares are always sent by the gateway.',
  share_summary_content: 'Template of the text for a share.',
  handle_hook_after_writing: 'Whether the search index is updated after writes; this server always updates it.',
  handle_hook_rate_limit: 'Maximum writes per second that update the search index. 0: no limit.',
  ignore_system_files: 'Uploads of .DS_Store, desktop.ini and similar files are refused.',
  // single
  token:
    'The permanent token: authenticates as the admin, and signs URLs. At least 32 visible ASCII characters without blanks. Empty: replaced with a new one, which invalidates signed URLs.',
  index_progress: 'JSON: progress of the search index. Written by the server.',
  first_run_done: 'The console no longer offers its first steps to admins. Written by the console.',
  // index
  search_index: 'The search index: database, or none to disable search.',
  auto_update_index: 'When a folder is read from its storage, its listing is compared with the search index.',
  ignore_paths: 'Absolute paths, one per line, that are not indexed, including everything below them.',
  max_index_depth: 'Maximum depth of indexed entries, in path segments.',
  // singleSignOn
  sso_login_enabled: 'Clients offer single sign-on.',
  sso_login_platform: 'The identity provider.',
  sso_client_id: 'Client id of this site at the provider.',
  sso_client_secret: 'Client secret of this site at the provider.',
  sso_oidc_username_key: 'Claim that contains the user name.',
  sso_organization_name: 'Organization, for Casdoor.',
  sso_application_name: 'Application, for Casdoor.',
  sso_endpoint_name: 'URL of the provider, for Casdoor and OIDC.',
  sso_jwt_public_key: 'Public key for the tokens of the provider, for Casdoor.',
  sso_extra_scopes: 'Additional scopes to request, separated by spaces.',
  sso_auto_register: 'An account is created at the first sign-in.',
  sso_default_dir: 'Base folder of created accounts.',
  sso_default_permission: 'Permissions of created accounts, as the sum of their bits.',
  sso_compatibility_mode: 'Sign-in uses a redirect instead of a window.',
  // ldap
  ldap_login_enabled: 'Clients offer to sign in with LDAP.',
  ldap_server: 'URL of the server: ldap:// or ldaps://.',
  ldap_skip_tls_verify: 'The certificate of the server is not verified.',
  ldap_manager_dn: 'DN of the account that searches for users.',
  ldap_manager_password: 'Password of that account.',
  ldap_user_search_base: 'Base DN of the search for users.',
  ldap_user_search_filter: 'Filter of the search for a user; %s is replaced with the user name.',
  ldap_default_dir: 'Base folder of accounts that are created at the first sign-in.',
  ldap_default_permission: 'Permissions of these accounts, as the sum of their bits.',
  ldap_login_tips: 'Text shown with the LDAP sign-in.',
  // s3
  s3_access_key_id: 'Access key of the S3 protocol.',
  s3_secret_access_key: 'Secret key of the S3 protocol.',
  s3_buckets: 'JSON list of the buckets of the S3 protocol.',
  // ftp
  ftp_public_host: 'Address that the FTP protocol announces for passive connections.',
  ftp_pasv_port_map: 'Ports of passive connections.',
  ftp_mandatory_tls: 'The FTP protocol refuses connections without TLS.',
  ftp_implicit_tls: 'Connections start with TLS.',
  ftp_tls_private_key_path: 'File of the private key for TLS.',
  ftp_tls_public_cert_path: 'File of the certificate for TLS.',
  sftp_disable_password_login: 'SFTP accepts only keys.',
  sftp_keep_partial_uploads:
    'If the connection breaks during an upload to a new name, the received part remains, so that the client can resume. Existing files are never overwritten partially.',
  // traffic
  offline_download_task_threads_num:
    'Maximum concurrent offline downloads of one user, on all nodes together. Of all users, twice as many run.',
  offline_download_transfer_task_threads_num:
    'Maximum concurrent tasks of one user, on all nodes together, that store the files of external download programs. Of all users, twice as many run.',
  upload_task_threads_num:
    'Maximum concurrent upload tasks of one user, on all nodes together. Of all users, twice as many run.',
  copy_task_threads_num:
    'Maximum concurrent copy tasks of one user, on all nodes together. Of all users, twice as many run.',
  move_task_threads_num:
    'Maximum concurrent move tasks of one user, on all nodes together. Of all users, twice as many run.',
  decompress_download_task_threads_num: 'Maximum archives that are fetched concurrently for extraction.',
  decompress_upload_task_threads_num: 'Maximum extracted archives that are stored concurrently.',
  max_client_download_speed: 'KiB per second to all clients in total, over all protocols; 0 or less: no limit.',
  max_client_upload_speed: 'KiB per second from all clients in total, over all protocols; 0 or less: no limit.',
  max_server_download_speed: 'KiB per second from all network storages in total; 0 or less: no limit.',
  max_server_upload_speed: 'KiB per second to all network storages in total; 0 or less: no limit.',
  multipart_enabled: 'Clients may upload files in chunks.',
  multipart_chunk_size: 'Maximum size of a chunk of such an upload, in megabytes.',
  finished_tasks_days: 'Days until finished tasks are deleted. Negative: never.',
  transfer_files_at_once:
    'Maximum files that all copies and moves of one node in total read and write concurrently; those of one user, three quarters of it.',
  spool_size_limit:
    'Megabytes of uploads and open files on the local disk that wait for their storage; files of external download programs may use ' +
    'the remainder. Negative: limited only by the disk.',
  egress_networks:
    'Networks, in addition to the public internet, that the gateway may connect to when a user or a redirect chooses the host, such as ' +
    '192.168.1.0/24; one per line.',
  egress_proxy:
    'HOST:PORT of the egress proxy, through which aria2 connects to servers. Empty: a free port of 127.0.0.1 for an aria2 on this ' +
    'machine, none for a remote one; off: none.',
  offline_download_size_limit: 'Maximum size of one offline download, in megabytes. Negative: no limit.',
  offline_download_temp_dir:
    'Folder of this machine to which aria2 and qBittorrent write and from which the gateway reads, with the same path for all of them. ' +
    'Empty: temp in the data folder.',
  metrics_networks:
    'Addresses and networks, one per line, from which /metrics can be read without the permanent token, such as 10.0.0.7 or ' +
    '192.168.1.0/24.',
  // offlineDownload
  aria2_uri: 'URL of the JSON-RPC interface of aria2.',
  aria2_secret: 'Secret of that interface (--rpc-secret). Empty: none.',
  qbittorrent_url: 'URL of the web interface of qBittorrent, with user name and password.',
  qbittorrent_seedtime:
    'Minutes to seed a complete torrent. Negative: the torrent and its files are never removed from qBittorrent.',
  transmission_uri: 'URL of the RPC interface of Transmission.',
  transmission_seedtime: 'Minutes to seed a complete torrent.',
  '115_temp_dir':
    'Folder of a 115 Cloud storage, as a path of the tree, into which the tool 115 Cloud downloads what is meant for other storages. ' +
    'Empty: it downloads into 115 Cloud storages only.',
  '115_open_temp_dir': 'The same for 115 Open.',
} as const

export type SettingKey = keyof typeof settingsHelp
