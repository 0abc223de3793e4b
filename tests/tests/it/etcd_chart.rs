//! The library chart of the etcd sidecar: the real helm renders it in a chart of etcd, a real API
//! server accepts the pod, and the binary runs as its container would.

use std::fs;

use kelpie_e2e::{ControlPlane, EtcdMember, Kelpie};
use serde_json::Value;
use xtask::cache;

/// A chart of etcd, reduced to what the sidecar needs.
const STATEFUL_SET: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: etcd
spec:
  serviceName: etcd
  podManagementPolicy: Parallel
  selector:
    matchLabels: { app: etcd }
  template:
    metadata:
      labels: { app: etcd }
    spec:
      initContainers:
      {{- include "kelpie-etcd.sidecar" .Values.kelpie | nindent 6 }}
      containers:
      - name: etcd
        image: registry.example/etcd
        {{- include "kelpie-etcd.probes" .Values.kelpie | nindent 8 }}
      volumes:
      - name: client-certificate
        secret: { secretName: etcd-client }
"#;

#[tokio::test]
async fn sidecar_of_the_library_chart_runs() {
    let control_plane = ControlPlane::start().await.unwrap();
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let chart = tempfile::tempdir().unwrap();
    let library = chart.path().join("charts/kelpie-etcd/templates");
    fs::create_dir_all(&library).unwrap();
    fs::create_dir(chart.path().join("templates")).unwrap();
    let source = cache::repository().join("deploy/charts/kelpie-etcd");
    for file in ["Chart.yaml", "templates/_sidecar.tpl"] {
        let target = chart.path().join("charts/kelpie-etcd").join(file);
        fs::copy(source.join(file), target).unwrap();
    }
    let own = "apiVersion: v2\nname: etcd\nversion: 0.1.0\n";
    fs::write(chart.path().join("Chart.yaml"), own).unwrap();
    fs::write(chart.path().join("templates/etcd.yaml"), STATEFUL_SET).unwrap();

    let path = chart.path().to_str().unwrap();
    let image = "--set=kelpie.image=registry.example/kelpie:0.1.0";
    let endpoint = format!("--set=kelpie.endpoint={}", etcd.url());
    let metrics = format!("--set=kelpie.metricsUrl={}", etcd.metrics_url());
    let install = ["install", "etcd", path, image, &endpoint, &metrics];
    control_plane.api.helm(&install).await.unwrap();
    let get = ["get", "statefulset", "etcd", "--output=json"];
    let installed = control_plane.api.kubectl(&get).await.unwrap();
    let installed: Value = serde_json::from_str(&installed).unwrap();
    let pod = &installed["spec"]["template"]["spec"];
    let sidecar = &pod["initContainers"][0];
    assert_eq!(sidecar["restartPolicy"], "Always");

    let arguments = sidecar["args"].as_array().unwrap().iter();
    let mut arguments: Vec<&str> = arguments.map(|word| word.as_str().unwrap()).collect();
    assert_eq!(arguments[1], "--listen=:2378");
    arguments[1] = "--listen=127.0.0.1:0";
    let kelpie = Kelpie::start(&arguments).await.unwrap();
    let probes = [
        &sidecar["startupProbe"],
        &sidecar["livenessProbe"],
        &pod["containers"][0]["livenessProbe"],
        &pod["containers"][0]["readinessProbe"],
    ];
    for probe in probes {
        let target = probe["httpGet"]["path"].as_str().unwrap();
        let timeout = std::time::Duration::from_secs(20);
        kelpie.until_status(target, 200, timeout).await.unwrap();
    }
    // The sidecar's own probes do not depend on etcd.
    drop(etcd);
    let own = sidecar["livenessProbe"]["httpGet"]["path"]
        .as_str()
        .unwrap();
    assert_eq!(kelpie.get(own).await.unwrap().status, 200);

    let refused = control_plane.api.helm(&["template", path]).await;
    let problem = refused.unwrap_err().to_string();
    assert!(problem.contains("image is not set"), "{problem}");
    let secured = [
        "template",
        path,
        image,
        "--set=kelpie.certificates=client-certificate",
    ];
    let secured = control_plane.api.helm(&secured).await.unwrap();
    for text in [
        "--cacert=/etc/kelpie/certificates/ca.crt",
        "mountPath: /etc/kelpie/certificates",
    ] {
        assert!(secured.contains(text), "{secured}");
    }
}
