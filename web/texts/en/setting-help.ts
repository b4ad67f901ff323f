/** What each setting does, and what its value can be. The names of the settings are in `settings.ts`. */

const tasksOfOneUser = 'How many run at the same time for one user. For all users together, twice as many run.'
const speed = 'For all of them together, over every protocol. 0 or less: no limit.'
const speedOfStorages = 'For all storages on other servers together. 0 or less: no limit.'
const extensions = 'Extensions, separated by commas.'
const permissionBits = 'The sum of the bits that the documentation lists under “Users”. 0: reads in the console only.'
const toolFolder = (storage: string) =>
  `A folder of a ${storage} storage, into which downloads for other storages go first. Empty: downloads go only into ${storage} storages.`

export default {
  settingHelp: {
    site_title: 'Shown in the title of every page.',
    announcement: 'Markdown that every page shows at the top, and SFTP as its banner. Empty: none.',
    robots_txt: 'The content of /robots.txt.',
    logo: 'Its address on this server. A second line: the one for dark pages. Empty: that of Tidegate.',
    favicon: 'Its address on this server. Empty: that of Tidegate.',
    main_color: 'The color of buttons and links, as in CSS, such as #1890ff.',
    hide_storage_details: 'Folders do not show how full their storage is. Guests never see it.',
    hide_storage_details_in_manage_page: 'The list of storages for administrators does not show how full they are.',
    text_types: `${extensions} These files are shown as text.`,
    audio_types: `${extensions} These files are played as audio.`,
    video_types: `${extensions} These files are played as videos.`,
    image_types: `${extensions} These files are shown as pictures.`,
    proxy_types: `${extensions} Clients always get these files from this server, never from the backend.`,
    package_download: 'Several files and folders can be downloaded as one archive.',
    customize_head: 'For the head of their pages, except those of the administration.',
    customize_body: 'For the end of the body of their pages, except those of the administration.',
    link_expiration: 'A signed link is valid for so many hours. 0: for ever.',
    sign_all: 'Off: a signature is needed only where a storage or a folder rule requires one.',
    privacy_regs: 'Regular expressions, one in each line. What they match is replaced with asterisks.',
    ignore_system_files: 'Uploads of .DS_Store, desktop.ini and similar files are refused.',
    forward_direct_link_params: 'What a link to a file has after its “?” is added to the address of the backend.',
    ignore_direct_link_params: 'Separated by commas.',
    webauthn_login_enabled: 'Users can register passkeys and sign in with them. This server must be reached by HTTPS.',
    share_force_proxy:
      'Off: visitors are sent to the backend, which may tell where a file is stored, and may still work when the share has ended.',
    filebrowser_share_links: 'Links of shares that were imported from File Browser lead to the shares here.',
    search_index: 'Choose one to turn search on. It is built when you save.',
    auto_update_index: 'When somebody opens a folder, the index learns of changes by other programs.',
    ignore_paths: 'One path in each line, such as /backup. What is below it is not indexed either.',
    max_index_depth: 'Folders that lie deeper are not indexed.',
    sftp_disable_password_login: 'Users then need an SSH key, which they add in their profile.',
    sftp_keep_partial_uploads:
      'If the connection breaks, the part of a new file that has arrived stays, so that the client can resume.',

    sso_login_enabled: 'Users can sign in at the provider, and the sign-in page offers it.',
    sso_login_platform: 'Choose OIDC for every provider of OpenID Connect that is not in the list.',
    sso_client_id: 'The provider shows it when you register this site there.',
    sso_client_secret: 'It comes with the client ID. Empty: the one that is saved stays.',
    sso_oidc_username_key:
      'The claim with the name of a new account. “name” also tries preferred_username and email, before it.',
    sso_endpoint_name:
      'OIDC: the issuer. Microsoft: the ID of the tenant. Casdoor or GitHub Enterprise Server: the address. Otherwise empty.',
    sso_extra_scopes: 'What else to ask the provider for, separated by spaces.',
    sso_auto_register: 'Whoever signs in at the provider for the first time gets an account here.',
    sso_default_dir: 'Of new accounts. {username} and {sub} become the name and the ID at the provider.',
    sso_default_permission: permissionBits,
    sso_compatibility_mode: 'Only for clients of AList or OpenList that cannot open a window.',
    sso_scopes_groups_claim: 'The claim with the groups of a user. Dots lead into objects, as in realm_access.roles.',
    sso_required_groups: 'Groups at the provider. Who is in none of them is refused. Empty: everybody may sign in.',
    sso_admin_groups: 'Groups at the provider. Their members are administrators here.',
    sso_group_map: 'JSON: groups at the provider and groups here, such as {"sales-eu": "sales"}.',
    sso_update_on_login: 'Off: only the first sign-in decides on the groups here.',
    sso_link_by_email: 'Whose verified e-mail address is the name of an account gets this account.',
    sso_logout_provider: 'Whoever signs out of the console is signed out at the provider too.',
    sso_login_text: 'The text of the button on the sign-in page. Empty: the usual text.',
    sso_only: 'The sign-in page has no fields for a password. The address /@login?local still shows them.',
    sso_recheck_days:
      'App passwords, SSH keys and passwords of accounts that a provider or directory has made are refused after so many days without a sign-in there. 0: never.',

    ldap_login_enabled: 'Users of the directory can sign in with their passwords there.',
    ldap_server: 'Such as ldaps://ldap.example.org. Its network must be among those that users may reach.',
    ldap_skip_tls_verify: 'Whoever is between this server and the directory can then read all passwords.',
    ldap_manager_dn: 'Such as cn=reader,dc=example,dc=org. Empty: the search is anonymous.',
    ldap_manager_password: 'The password of that account. Empty: the one that is saved stays.',
    ldap_user_search_base: 'Such as ou=people,dc=example,dc=org.',
    ldap_user_search_filter: '%s stands for the name that was typed. Active Directory: (sAMAccountName=%s).',
    ldap_default_dir: 'Of new accounts. {username} becomes the name.',
    ldap_default_permission: permissionBits,
    ldap_start_tls: 'Encrypts connections to an address of ldap://.',
    ldap_ca_file: 'A PEM file on this machine. Empty: the authorities that the server trusts already.',
    ldap_username_attribute: 'A new account gets its name from it. Empty: the name as it was typed.',
    ldap_group_search_base: 'Empty: the groups are those of the attribute memberOf.',
    ldap_nested_groups: 'Members of a group within a group count too. Only Active Directory can do this.',
    ldap_group_map: 'JSON: DNs of groups in the directory and groups here.',
    ldap_required_group_dn: 'Only its members can sign in. Empty: everybody.',
    ldap_admin_group_dn: 'Its members are administrators here. Empty: nobody.',

    offline_download_task_threads_num: tasksOfOneUser,
    offline_download_transfer_task_threads_num: tasksOfOneUser,
    upload_task_threads_num: tasksOfOneUser,
    copy_task_threads_num: tasksOfOneUser,
    move_task_threads_num: tasksOfOneUser,
    max_client_download_speed: speed,
    max_client_upload_speed: speed,
    max_server_download_speed: speedOfStorages,
    max_server_upload_speed: speedOfStorages,
    multipart_enabled: 'A large upload that was interrupted then continues where it stopped.',
    multipart_chunk_size: 'A proxy before this server must let requests of this size through.',
    finished_tasks_days: 'Negative: they stay until they are removed by hand.',
    transfer_files_at_once: 'For all users together. One user gets at most three quarters of it.',
    spool_size_limit: 'Uploads and open files that wait for their storage. Negative: as much as the disk has.',
    egress_networks:
      'Networks that users may choose in addition to the internet, one in each line, such as 192.168.1.0/24.',
    egress_proxy: 'HOST:PORT. Empty: a free port, for an aria2 on this machine. “off”: none.',
    offline_download_size_limit: 'Of one download. Negative: no limit.',
    offline_download_temp_dir:
      'A folder on this machine that aria2 and qBittorrent reach by the same path. Empty: in the data folder.',
    metrics_networks:
      'Addresses and networks that read /metrics without the permanent token, one in each line, such as 10.0.0.7.',

    aria2_uri: 'The address of its JSON-RPC interface.',
    aria2_secret: 'What aria2 was started with as --rpc-secret. Empty: none.',
    qbittorrent_url: 'The address of its web interface, with user name and password.',
    qbittorrent_seedtime: 'After its end, so long. Negative: the torrent and its files stay in qBittorrent.',
    '115_temp_dir': toolFolder('115 Cloud'),
    '115_open_temp_dir': toolFolder('115 Open'),

    audit_enabled: 'What is done, refused or fails, and who did it.',
    audit_days: 'Negative: they are kept.',
    audit_max_mib: 'In the database, about. When there is more, the oldest are deleted. Negative: no limit.',
    audit_reads: 'Who has read which file. This makes many events.',
    audit_details: 'Locks are those of WebDAV.',
    audit_strict: 'A power failure then loses none. Changes take longer.',
    audit_log: 'A path that ends with .log, or syslog://HOST:PORT. It gets a line for each event. Empty: none.',
  },
}
