# PID 1 of fresh namespaces: lay out what a machine needs, then become its init.
# Arguments: FOLDER, then the init command. Everything mounted here is private to this mount namespace.
set -e
folder=$1; shift
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/systemd/journal /run/lock
touch /run/systemd/journal/flushed      # the journal goes to /var/log/journal from the first line on
mount -t tmpfs tmpfs /var/log
mkdir /var/log/journal
mount --bind "$folder/journal" /var/log/journal
mount --bind "$folder/units" /etc/systemd/system
if [ -d /var/spool/cron ]; then
    mount -t tmpfs tmpfs /var/spool/cron            # no crontab of the host runs here, none of ours stays there
    mkdir -m 1730 /var/spool/cron/crontabs
    chgrp crontab /var/spool/cron/crontabs
fi
if [ -s "$folder/shown" ]; then         # what lies in root's home and another user needs
    mkdir /run/shown && cp "$folder/shown" /run/shown/list && number=0
    while read -r path; do
        number=$((number + 1)) && mkdir /run/shown/$number && mount --rbind "$path" /run/shown/$number
    done < /run/shown/list
    mount -t tmpfs -o mode=755 tmpfs /root && number=0
    while read -r path; do
        number=$((number + 1)) && mkdir -p "$path" && mount --move /run/shown/$number "$path"
    done < /run/shown/list
fi
if [ ! -e "$folder/host-cgroups" ]; then  # an engine needs the host's cgroups, and user namespaces a /proc without holes
    mount -t tmpfs tmpfs /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup # rooted at our own cgroup, so machines never see one another's units
    cat /proc/sys/kernel/random/uuid > /run/boot-id
    mount --bind /run/boot-id /proc/sys/kernel/random/boot_id   # each start of a machine is a boot of its own
fi
mount --bind "$folder/hosts" /etc/hosts          # the real services' names lead to the fakes
mount --bind "$folder/passwd" /etc/passwd        # root's home is the machine's own
while read -r bundle; do mount --bind "$folder/bundle.pem" "$bundle"; done < "$folder/bundles"
export SYSTEMD_UNIT_PATH=/etc/systemd/system container=lab
exec "$@"
